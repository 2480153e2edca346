/** This browser's key of the hub. Not a cookie: browsers send those to every port of a host, and an agent's own server may
 * be behind one. In IndexedDB, which is of this origin alone, and which the service worker reads too. */
const NAME = 'tieline'
const STORE = 'keys'
const KEY = 'hub'

function openDatabase(): Promise<IDBDatabase> {
  return new Promise((done, failed) => {
    const request = indexedDB.open(NAME, 1)
    request.onupgradeneeded = () => request.result.createObjectStore(STORE)
    request.onsuccess = () => done(request.result)
    request.onerror = () => failed(request.error ?? new Error('no database'))
  })
}

async function runInStore<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const database = await openDatabase()
  try {
    return await new Promise<T>((done, failed) => {
      const transaction = database.transaction(STORE, mode)
      const request = work(transaction.objectStore(STORE))
      transaction.oncomplete = () => done(request.result)
      transaction.onerror = transaction.onabort = () => failed(transaction.error ?? new Error('not kept'))
    })
  } finally {
    database.close()
  }
}

/** Empty where there is none, or where the browser keeps nothing. */
export async function readStoredKey(): Promise<string> {
  try {
    const key: unknown = await runInStore('readonly', (store) => store.get(KEY) as IDBRequest<unknown>)
    return typeof key === 'string' ? key : ''
  } catch {
    return ''
  }
}

/** Where the browser keeps nothing it is gone with the page. */
export async function writeStoredKey(key: string): Promise<void> {
  try {
    await runInStore('readwrite', (store) => (key ? store.put(key, KEY) : store.delete(KEY)) as IDBRequest<unknown>)
  } catch {
    // switched off: the page works until it is closed
  }
}
