/** Attachments of a prompt. A prompt and its files are one record at the hub, so large images are scaled down. */
import type { Attachment } from './outbox'

export const MAX_TOTAL_BYTES = 700 * 1024 // bytes of all files of a prompt, before base64
const MAX_IMAGE_SIDE = 1600 // pixels
const PLAIN_IMAGE = /^image\/(?:png|jpeg|gif|webp)$/ // what models take; a phone may have others, such as HEIC

export async function readAttachment(file: File): Promise<Attachment> {
  const image = /^image\/(?!svg)/.test(file.type)
  const small = image && (file.size > MAX_TOTAL_BYTES / 2 || !PLAIN_IMAGE.test(file.type)) ? await redraw(file) : file
  const bytes = new Uint8Array(await small.arrayBuffer())
  return { name: file.name || 'picture.png', media_type: mediaType(small.type, bytes), data: base64(bytes) }
}

/** Whether an agent accepts a media type: exactly, as `family/*`, or as any. */
export function acceptsType(type: string, accepted: readonly string[]): boolean {
  return accepted.some((pattern) => pattern === type || pattern === '*/*' || pattern === `${type.split('/')[0]}/*`)
}

export function attachmentSize(attached: Attachment): number {
  return Math.floor((attached.data.length * 3) / 4)
}

/** As a JPEG of a size that a prompt can carry; an image that this browser cannot draw stays as it is. */
async function redraw(file: File): Promise<Blob> {
  const bitmap = await createImageBitmap(file).catch(() => undefined)
  if (!bitmap) return file
  const factor = Math.min(1, MAX_IMAGE_SIDE / Math.max(bitmap.width, bitmap.height))
  const canvas = document.createElement('canvas')
  canvas.width = Math.round(bitmap.width * factor)
  canvas.height = Math.round(bitmap.height * factor)
  canvas.getContext('2d')!.drawImage(bitmap, 0, 0, canvas.width, canvas.height)
  bitmap.close()
  for (const quality of [0.85, 0.7, 0.5]) {
    const jpeg = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, 'image/jpeg', quality))
    if (jpeg && jpeg.size < MAX_TOTAL_BYTES * 0.9) return jpeg
  }
  return file
}

function base64(bytes: Uint8Array): string {
  let text = ''
  for (let start = 0; start < bytes.length; start += 0x8000) text += String.fromCharCode(...bytes.subarray(start, start + 0x8000))
  return btoa(text)
}

/** Browsers guess by the file's name and mistake source code (`.ts` for video): valid UTF-8 is text. */
function mediaType(guess: string, bytes: Uint8Array): string {
  if (/^(image\/(?!svg)|text\/|application\/pdf$)/.test(guess)) return guess
  try {
    if (!new TextDecoder('utf-8', { fatal: true }).decode(bytes).includes('\0')) return 'text/plain'
  } catch {
    // not text
  }
  return guess || 'application/octet-stream'
}
