/** This browser's API key, in IndexedDB: limited to this origin and readable by the service worker. Not a cookie: browsers send
 * cookies to every port of a host, and an agent's own server may listen on one. */
const NAME = 'tieline'
const STORE = 'keys'
const KEY = 'hub'

function openDatabase(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1)
    request.onupgradeneeded = () => request.result.createObjectStore(STORE)
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error ?? new Error('IndexedDB is not available'))
  })
}

async function runInStore<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const database = await openDatabase()
  try {
    return await new Promise<T>((resolve, reject) => {
      const transaction = database.transaction(STORE, mode)
      const request = work(transaction.objectStore(STORE))
      transaction.oncomplete = () => resolve(request.result)
      transaction.onerror = transaction.onabort = () => reject(transaction.error ?? new Error('the key was not stored'))
    })
  } finally {
    database.close()
  }
}

/** Empty when there is no key or the browser has no storage. */
export async function readStoredKey(): Promise<string> {
  try {
    const key: unknown = await runInStore('readonly', (store) => store.get(KEY) as IDBRequest<unknown>)
    return typeof key === 'string' ? key : ''
  } catch {
    return ''
  }
}

/** Without storage the key is lost when the page is closed. */
export async function writeStoredKey(key: string): Promise<void> {
  try {
    await runInStore('readwrite', (store) => (key ? store.put(key, KEY) : store.delete(KEY)) as IDBRequest<unknown>)
  } catch {
    // no storage: the page works until it is closed
  }
}
