/** JSON values in the browser's local storage: drafts, read marks, the last choices. A missing storage is never an error. */
const PREFIX = 'tieline.'

export function loadLocal<T>(name: string, fallback: T): T {
  try {
    const text = localStorage.getItem(PREFIX + name)
    return text === null ? fallback : (JSON.parse(text) as T)
  } catch {
    return fallback
  }
}

export function saveLocal(name: string, value: unknown): void {
  try {
    if (value === undefined || value === null || value === '') localStorage.removeItem(PREFIX + name)
    else localStorage.setItem(PREFIX + name, JSON.stringify(value))
  } catch {
    // full or disabled: the page works without it
  }
}

/** Removes everything at sign-out. */
export function clearLocal(): void {
  try {
    for (const name of Object.keys(localStorage)) if (name.startsWith(PREFIX)) localStorage.removeItem(name)
  } catch {
    // disabled
  }
}
