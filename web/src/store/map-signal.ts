/** A map that components follow as they follow a signal. It changes in place: to copy 10,000 sessions because one of them has
 * changed takes longer than to draw it. Nobody may take the map itself for a sign that nothing has changed. */
import { signal } from '@preact/signals'

export class MapSignal<T extends { readonly id: string }> {
  private readonly version = signal(0)
  private map = new Map<string, T>()

  get value(): ReadonlyMap<string, T> {
    void this.version.value // whoever reads it is told of the next change
    return this.map
  }

  peek(): ReadonlyMap<string, T> {
    return this.map
  }

  upsert(one: T): void {
    this.map.set(one.id, one)
    this.version.value++
  }

  remove(id: string): void {
    if (this.map.delete(id)) this.version.value++
  }

  replace(all: readonly T[]): void {
    this.map = new Map(all.map((one) => [one.id, one]))
    this.version.value++
  }
}
