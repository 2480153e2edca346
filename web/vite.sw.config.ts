/** The service worker: one file of its own, built after the page, so that it knows the page's files. */
import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vite'
import { OUT, compressed } from './vite.config.ts'

export default defineConfig(() => {
  const assets = readdirSync(join(OUT, 'assets')).filter((name) => /\.(js|css)$/.test(name))
  const shell = ['/', '/icons/icon.svg', '/icons/icon-192.png', '/icons/badge-96.png', '/manifest.webmanifest', ...assets.map((name) => `/assets/${name}`)]
  return {
    plugins: [compressed()],
    publicDir: false as const,
    define: {
      __SHELL__: JSON.stringify(shell),
      __SHELL_VERSION__: JSON.stringify(createHash('sha256').update(shell.join()).digest('hex').slice(0, 12)),
    },
    build: {
      outDir: OUT,
      emptyOutDir: false,
      target: 'es2022',
      rollupOptions: { input: join(import.meta.dirname, 'src/service-worker.ts'), output: { format: 'iife' as const, entryFileNames: 'sw.js' } },
    },
  }
})
