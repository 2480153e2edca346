/** Files that go with a prompt. A prompt and its files are one record at the hub, so pictures are made small enough. */
import type { Attachment } from './outbox'

export const MAX_TOTAL_BYTES = 700 * 1024 // bytes of all files of a prompt, before base64
const MAX_IMAGE_SIDE = 1600 // pixels of a picture's longer side

export async function readAttachment(file: File): Promise<Attachment> {
  const small = file.type.startsWith('image/') && file.size > MAX_TOTAL_BYTES / 2 ? await shrinkImage(file) : file
  const bytes = new Uint8Array(await small.arrayBuffer())
  return { name: file.name || 'picture.png', media_type: mediaType(small.type, bytes), data: base64(bytes) }
}

/** Whether an agent takes it: by its type, its family, or because it takes all. */
export function acceptsType(type: string, taken: readonly string[]): boolean {
  return taken.some((one) => one === type || one === '*/*' || one === `${type.split('/')[0]}/*`)
}

export function attachmentSize(attached: Attachment): number {
  return Math.floor((attached.data.length * 3) / 4)
}

async function shrinkImage(file: File): Promise<Blob> {
  const picture = await createImageBitmap(file)
  const factor = Math.min(1, MAX_IMAGE_SIDE / Math.max(picture.width, picture.height))
  const canvas = document.createElement('canvas')
  canvas.width = Math.round(picture.width * factor)
  canvas.height = Math.round(picture.height * factor)
  canvas.getContext('2d')!.drawImage(picture, 0, 0, canvas.width, canvas.height)
  picture.close()
  for (const quality of [0.85, 0.7, 0.5]) {
    const made = await new Promise<Blob | null>((done) => canvas.toBlob(done, 'image/jpeg', quality))
    if (made && made.size < MAX_TOTAL_BYTES * 0.9) return made
  }
  return file
}

function base64(bytes: Uint8Array): string {
  let text = ''
  for (let start = 0; start < bytes.length; start += 0x8000) text += String.fromCharCode(...bytes.subarray(start, start + 0x8000))
  return btoa(text)
}

/** Browsers guess by a file's name, and take a programmer's for others (`.ts` for a film): what can be read is text. */
function mediaType(guess: string, bytes: Uint8Array): string {
  if (/^(image\/(?!svg)|text\/|application\/pdf$)/.test(guess)) return guess
  try {
    if (!new TextDecoder('utf-8', { fatal: true }).decode(bytes).includes('\0')) return 'text/plain'
  } catch {
    // not text
  }
  return guess || 'application/octet-stream'
}
