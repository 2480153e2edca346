/** A component that renders again only when its props change. */
import { Component, h, type ComponentChild, type FunctionComponent } from 'preact'

export function memo<T extends object>(inner: FunctionComponent<T>): FunctionComponent<T> {
  class Memo extends Component<T> {
    override shouldComponentUpdate(next: Readonly<T>): boolean {
      const before = this.props as Record<string, unknown>
      const names = new Set([...Object.keys(before), ...Object.keys(next)])
      return [...names].some((name) => before[name] !== (next as Record<string, unknown>)[name])
    }
    override render(props: T): ComponentChild {
      return h(inner, props)
    }
  }
  return Memo as unknown as FunctionComponent<T>
}
