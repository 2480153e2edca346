import { readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

export const OUT = join(import.meta.dirname, '..', 'src', 'tieline', 'hub', 'static')

/** Each file compressed once here instead of at each request. */
export function compressed(): Plugin {
  return {
    name: 'compressed',
    closeBundle() {
      for (const name of readdirSync(OUT, { recursive: true }) as string[]) {
        const path = join(OUT, name)
        if (!/\.(html|js|css|svg|webmanifest)$/.test(name) || !statSync(path).isFile()) continue
        const content = readFileSync(path)
        writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }))
        const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length }
        writeFileSync(`${path}.br`, brotliCompressSync(content, { params }))
      }
    },
  }
}

const hub = process.env.TIELINE_HUB ?? 'http://127.0.0.1:8137'

export default defineConfig({
  plugins: [compressed()],
  build: {
    outDir: OUT,
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { '/api': { target: hub, ws: true } } },
  // One worker: the tests take a second, and starting more takes longer.
  test: { environment: 'node', include: ['test/**/*.test.{ts,mjs}'], pool: 'threads', maxWorkers: 1, testTimeout: 60_000, teardownTimeout: 60_000 },
})
