/** What this browser keeps by itself: drafts, what was seen, recent directories. Its absence is never an error. */
const PREFIX = 'tieline.'

export function kept<T>(name: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(PREFIX + name)
    return text === null ? otherwise : (JSON.parse(text) as T)
  } catch {
    return otherwise
  }
}

export function keep(name: string, value: unknown): void {
  try {
    if (value === undefined || value === null || value === '') localStorage.removeItem(PREFIX + name)
    else localStorage.setItem(PREFIX + name, JSON.stringify(value))
  } catch {
    // full, or switched off: the page works without
  }
}

/** Nothing of a person who signed out stays behind. */
export function forgetAll(): void {
  try {
    for (const name of Object.keys(localStorage)) if (name.startsWith(PREFIX)) localStorage.removeItem(name)
  } catch {
    // as above
  }
}
