/* What the pages do beyond HTML: one policy for what htmx puts into them, live parts that wait for whoever works in
   them and rest while nobody looks, and a question before what cannot be undone. */
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

  /* A part in which somebody is at work stays as it is; what came meanwhile is shown afterwards. */
  const missed = new Map()
  function inUse (part) {
    const selection = document.getSelection()
    return part.contains(document.activeElement) || part.querySelector('details[open], input:checked') !== null ||
      (selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode))
  }
  document.addEventListener('htmx:sseBeforeMessage', function (event) {
    missed.delete(event.target)
    if (inUse(event.target)) {
      event.preventDefault()
      missed.set(event.target, event.detail.data)
    }
  })
  function catchUp () {
    for (const [part, data] of missed) {
      if (!part.isConnected) missed.delete(part)
      else if (!inUse(part)) {
        missed.delete(part)
        window.htmx.swap(part, data, { swapStyle: 'innerHTML' })
      }
    }
  }
  for (const name of ['change', 'focusin', 'focusout', 'toggle', 'selectionchange']) {
    document.addEventListener(name, function () { window.setTimeout(catchUp, 50) }, true)
  }

  document.addEventListener('htmx:sseOpen', function (event) {
    const source = event.detail.source
    const live = event.target
    document.addEventListener('visibilitychange', function resting () {
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

  /* Where there is little room a search that nobody has begun leaves it to what was found. */
  if (window.matchMedia('(max-width: 40rem)').matches) {
    for (const one of document.querySelectorAll('details[data-roomy]')) one.open = false
  }

  /* One box ticks all rows of its form; without scripts each is ticked by itself. */
  function offerAll () {
    for (const one of document.querySelectorAll('[data-all]')) one.closest('label').hidden = false
  }
  offerAll()
  document.addEventListener('htmx:afterSwap', offerAll)
  document.addEventListener('change', function (event) {
    const one = event.target.closest('[data-all]')
    if (one) for (const box of one.form.querySelectorAll('td input[type=checkbox]')) box.checked = one.checked
  })

  /* Beside each time how long ago it was; the server writes the time itself. */
  const STEPS = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']]
  function ago (moment) {
    const seconds = Math.round((Date.now() - moment) / 1000)
    const apart = Math.abs(seconds)
    if (!Number.isFinite(apart) || apart < 1) return 'now'
    const [size, unit] = STEPS.find(function (one) { return apart >= one[0] })
    const text = Math.floor(apart / size) + ' ' + unit
    return seconds > 0 ? text + ' ago' : 'in ' + text
  }
  function tellAges () {
    for (const one of document.querySelectorAll('time[datetime]')) {
      let beside = one.nextElementSibling
      if (beside === null || !beside.classList.contains('ago')) {
        beside = document.createElement('span')
        beside.className = 'ago'
        one.after(' ', beside)
      }
      beside.textContent = ago(Date.parse(one.getAttribute('datetime')))
    }
  }
  tellAges()
  window.setInterval(tellAges, 30000)
  document.addEventListener('htmx:afterSwap', tellAges)

  /* Keys: `/` finds, `g` and a letter goes to a page, `j` and `k` go on and back, `?` says so. They can be turned off. */
  const dialog = document.getElementById('all-keys')
  const OFF = 'keys-off'
  let went = 0
  function step (by) {
    const way = document.querySelector(by > 0 ? 'main a[rel=next]' : 'main a[rel=prev]')
    if (way) { way.click(); return }
    const rows = [...document.querySelectorAll('main tbody a, main .plain a')].filter(function (link) {
      const row = link.closest('tr, li')
      return row !== null && row.querySelector('a') === link && link.offsetParent !== null
    })
    const at = rows.findIndex(function (link) { return link.closest('tr, li').contains(document.activeElement) })
    const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by]
    if (next) next.focus()
  }
  const ACTS = {
    '/': function () { document.getElementById('find')?.focus() },
    '?': function () { dialog.showModal() },
    j: function () { step(1) },
    k: function () { step(-1) },
    g: function () { went = Date.now() }
  }
  if (dialog) {
    const use = dialog.querySelector('[data-keys]')
    use.checked = window.localStorage.getItem(OFF) === null
    use.addEventListener('change', function () {
      if (use.checked) window.localStorage.removeItem(OFF)
      else window.localStorage.setItem(OFF, 'true')
    })
    document.addEventListener('keydown', function (event) {
      /* Within the editor of the playground, whose tree is its own, the document sees the editor alone as the target. */
      const at = event.composedPath()[0]
      if (event.ctrlKey || event.metaKey || event.altKey || dialog.open || !use.checked ||
        at.closest('input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]')) return
      const page = Date.now() - went < 1500
        ? [...document.querySelectorAll('.menu [data-key]')].find(function (one) { return one.dataset.key === event.key })
        : null
      went = 0
      if (page) page.querySelector('a').click()
      else if (Object.hasOwn(ACTS, event.key)) ACTS[event.key]()
      else return
      event.preventDefault()
    })
    document.addEventListener('click', function (event) {
      if (event.target.closest('[data-opens=all-keys]')) { event.preventDefault(); dialog.showModal() }
    })
  }

  const here = document.querySelector('.menu [aria-current]')
  if (here) here.scrollIntoView({ inline: 'center', block: 'nearest' })

  /* What stands at the point of a chart that is pointed at, at once and where there is room for it. */
  for (const name of ['pointerover', 'pointerout']) {
    document.addEventListener(name, function (event) {
      const point = event.target.closest('.points rect')
      if (!point) return
      const place = point.closest('.chart').querySelector('.at')
      place.dataset.usual = place.dataset.usual || place.textContent
      place.textContent = name === 'pointerover' ? point.textContent : place.dataset.usual
    })
  }

  document.addEventListener('click', function (event) {
    const button = event.target.closest('[data-confirm]')
    if (button && !window.confirm(button.dataset.confirm)) event.preventDefault()
  })
})()
