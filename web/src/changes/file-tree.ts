/** Changed files as a tree of folders; a folder with one folder in it is one row. */
export interface TreeFile<T> { readonly name: string; readonly path: string; readonly file: T }
export interface TreeFolder<T> { readonly name: string; readonly path: string; readonly folders: readonly TreeFolder<T>[]; readonly files: readonly TreeFile<T>[] }

interface Builder<T> { folders: Map<string, Builder<T>>; files: TreeFile<T>[] }

export function fileTree<T extends { readonly path: string }>(all: readonly T[]): TreeFolder<T> {
  const root: Builder<T> = { folders: new Map(), files: [] }
  for (const file of all) {
    const parts = file.path.replace(/\/$/, '').split('/')
    let folder = root
    for (const part of parts.slice(0, -1)) {
      let next = folder.folders.get(part)
      if (!next) folder.folders.set(part, next = { folders: new Map(), files: [] })
      folder = next
    }
    folder.files.push({ name: parts.at(-1) || file.path, path: file.path, file })
  }
  return build('', '', root)
}

const byName = (entry: { name: string }, other: { name: string }) => (entry.name < other.name ? -1 : entry.name > other.name ? 1 : 0)

function build<T>(name: string, path: string, from: Builder<T>): TreeFolder<T> {
  const [only] = from.folders
  if (name && only && from.folders.size === 1 && !from.files.length) return build(`${name}/${only[0]}`, `${path}/${only[0]}`, only[1])
  const folders = [...from.folders].map(([inner, below]) => build(inner, path ? `${path}/${inner}` : inner, below)).sort(byName)
  return { name, path, folders, files: from.files.sort(byName) }
}
