/** A component whose code is loaded when it is first shown, so that the first paint does not wait for it. */
import { h, type ComponentChild, type FunctionComponent } from 'preact'
import { useEffect, useState } from 'preact/hooks'

/** `waiting`: what is shown meanwhile. */
export function lazy<T extends object>(load: () => Promise<FunctionComponent<T>>, waiting: ComponentChild = null): FunctionComponent<T> {
  let known: FunctionComponent<T> | undefined
  return (props: T) => {
    const [inner, setInner] = useState(() => known)
    useEffect(() => {
      let live = true
      if (!known) void load().then((component) => { known = component; if (live) setInner(() => component) }, () => undefined) // without a network: the next time
      return () => { live = false }
    }, [])
    return inner ? h(inner, props) : waiting
  }
}
