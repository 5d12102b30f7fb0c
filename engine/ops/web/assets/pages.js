/* What the pages do beyond HTML: one policy for what htmx puts into them, and lists that rest while nobody looks. */
(function () {
  'use strict'
  /* Only parts of our own pages come this way, escaped by the server. What could run is refused outright. */
  const FORBIDDEN = /<\s*(script|iframe|object|embed|base|meta|link|style)\b/i
  if (window.trustedTypes && window.trustedTypes.createPolicy) {
    window.trustedTypes.createPolicy('default', {
      createHTML: function (text) {
        if (FORBIDDEN.test(text)) throw new TypeError('this part of a page may not be shown')
        return text
      }
    })
  }
  document.addEventListener('htmx:sseOpen', function (event) {
    const source = event.detail.source
    const live = event.target
    document.addEventListener('visibilitychange', function resting() {
      if (document.hidden && source.readyState !== EventSource.CLOSED) {
        source.close()
        live.dataset.resting = 'true'
      } else if (!document.hidden && live.dataset.resting) {
        document.removeEventListener('visibilitychange', resting)
        delete live.dataset.resting
        if (!live.isConnected) return
        const again = live.cloneNode(true)
        live.replaceWith(again)
        window.htmx.process(again)
      }
    })
  })
  document.addEventListener('click', function (event) {
    const button = event.target.closest('[data-confirm]')
    if (button && !window.confirm(button.dataset.confirm)) event.preventDefault()
  })
})()
