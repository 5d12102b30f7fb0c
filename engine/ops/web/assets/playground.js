/* The playground beyond HTML: an editor with completion and errors where they stand; a value of the plan lights its rule
   and its field, a field what reads it. Without this file links and forms do the same. */
(function () {
  'use strict'
  const form = document.getElementById('playground')
  const result = document.getElementById('result')
  const cm = window.codemirror
  if (!form || !result || !cm) return
  const CHECK_AFTER = 700
  let view = null
  let pointing = 0
  let problems = []

  /* The editor stands in a tree of its own, whose styles the policy allows: they are no part of the document. */
  const look = cm.EditorView.theme({
    '&': { color: 'var(--ink)', backgroundColor: 'var(--paper)', border: '1px solid var(--strong)', borderRadius: '6px', fontSize: '13px', height: '26rem' },
    '&.cm-focused': { outline: '3px solid var(--focus)', outlineOffset: '1px' },
    '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5' },
    '.cm-content': { caretColor: 'var(--ink)' },
    '.cm-cursor': { borderLeftColor: 'var(--ink)' },
    '.cm-gutters': { backgroundColor: 'var(--sunken)', color: 'var(--soft)', border: 'none' },
    '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--sunken) 60%, transparent)' },
    '.cm-lint-marker-error': { content: '""', width: '0.7em', height: '0.7em', marginTop: '0.4em', backgroundColor: 'var(--bad)', borderRadius: '2px' },
    '.cm-lintRange-error': { backgroundImage: 'none', textDecoration: 'underline wavy var(--bad)' },
    '.cm-diagnostic-error': { borderLeftColor: 'var(--bad)' },
    '.cm-line.lit': { backgroundColor: 'var(--accent-soft)' },
    '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground': { backgroundColor: 'color-mix(in srgb, var(--accent) 30%, transparent)' },
    '.cm-tooltip': { backgroundColor: 'var(--raised)', color: 'var(--ink)', border: '1px solid var(--strong)', maxWidth: '30rem' },
    '.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--accent-ink)' },
    '.cm-panels': { backgroundColor: 'var(--sunken)', color: 'var(--ink)' },
    '.cm-textfield': { backgroundColor: 'var(--paper)', color: 'var(--ink)', borderColor: 'var(--strong)' },
    '.cm-button': { backgroundImage: 'none', backgroundColor: 'var(--raised)', color: 'var(--ink)', borderColor: 'var(--strong)' }
  })
  const colours = cm.HighlightStyle.define([
    { tag: [cm.tags.definition(cm.tags.propertyName), cm.tags.propertyName], color: 'var(--accent)' },
    { tag: [cm.tags.comment, cm.tags.lineComment], color: 'var(--soft)' },
    { tag: [cm.tags.string, cm.tags.special(cm.tags.string)], color: 'var(--good)' },
    { tag: [cm.tags.separator, cm.tags.punctuation, cm.tags.squareBracket, cm.tags.brace], color: 'var(--soft)' }
  ])
  const light = cm.StateEffect.define()
  const lit = cm.StateField.define({
    create: function () { return cm.Decoration.none },
    update: function (marks, change) {
      marks = marks.map(change.changes)
      for (const effect of change.effects) {
        if (effect.is(light)) marks = cm.Decoration.set([cm.Decoration.line({ class: 'lit' }).range(effect.value)])
      }
      return marks
    },
    provide: function (field) { return cm.EditorView.decorations.from(field) }
  })

  function mount () {
    const source = document.querySelector('#editor .source')
    if (view) view.destroy()
    view = null
    if (!source) return
    const area = source.querySelector('textarea')
    const readOnly = 'readOnly' in source.dataset
    const text = area ? area.value : Array.from(source.querySelectorAll('li'), function (one) { return one.textContent }).join('\n')
    const host = document.createElement('div')
    source.hidden = true
    source.after(host)
    const root = host.attachShadow({ mode: 'open' })
    view = new cm.EditorView({
      parent: root,
      root: root,
      state: cm.EditorState.create({
        doc: text,
        extensions: [
          cm.lineNumbers(), cm.history(), cm.drawSelection(), cm.highlightActiveLine(), cm.highlightSelectionMatches(),
          cm.search({ top: true }), cm.yaml(), cm.syntaxHighlighting(colours), look, lit, cm.lintGutter(),
          cm.autocompletion({ override: [complete], icons: false }),
          cm.keymap.of([...cm.completionKeymap, ...cm.searchKeymap, ...cm.defaultKeymap, ...cm.historyKeymap]),
          cm.EditorState.readOnly.of(readOnly),
          cm.EditorView.contentAttributes.of({ 'aria-label': 'Mapping file ' + source.dataset.path, spellcheck: 'false' }),
          cm.EditorView.updateListener.of(function (update) {
            if (update.selectionSet) {
              window.clearTimeout(pointing)
              pointing = window.setTimeout(point, CHECK_AFTER)
            }
            if (!update.docChanged || !area) return
            area.value = update.state.doc.toString()
            document.querySelector('#editor [data-edited]').hidden = false
            later(check)
          })
        ]
      })
    })
    go(Number(source.dataset.line))
    mark()
  }

  function open () {
    const source = document.querySelector('#editor .source')
    return source ? source.dataset.path : ''
  }

  function go (number) {
    if (!view || !number || number > view.state.doc.lines) return
    const line = view.state.doc.line(number)
    view.dispatch({ selection: { anchor: line.from }, effects: [light.of(line.from), cm.EditorView.scrollIntoView(line.from, { y: 'center' })] })
  }

  /* Errors at their lines: as the last answer told them, and again when nobody has typed for a moment. */
  function mark () {
    if (!view) return
    const doc = view.state.doc
    const own = problems.filter(function (one) { return one.file === open() })
    view.dispatch(cm.setDiagnostics(view.state, own.map(function (one) {
      const line = doc.line(Math.min(Math.max(one.line, 1), doc.lines))
      const from = Math.min(line.from + one.column - 1, line.to)
      const word = /^[^\s:,{}[\]]+/.exec(doc.sliceString(from, line.to))
      return { from: from, to: from + (word ? word[0].length : 0), severity: 'error', message: one.found + '; ' + one.expected }
    })))
  }
  let timer = 0
  function later (work) {
    window.clearTimeout(timer)
    timer = window.setTimeout(work, CHECK_AFTER)
  }
  let asked = 0
  async function check () {
    const mine = ++asked
    const fields = new FormData(form)
    fields.delete('message')
    const answer = await window.fetch('/playground/check', { method: 'POST', body: new URLSearchParams(fields) }).catch(function () { return null })
    if (!answer || !answer.ok || answer.redirected || mine !== asked) return
    problems = await answer.json()
    mark()
  }

  /* What may be written at the cursor, and what is said of the word there: as `mappings lsp` answers other editors. */
  async function ask (path, position, isWithMessage) {
    const line = view.state.doc.lineAt(position)
    const fields = new FormData(form)
    if (!isWithMessage) fields.delete('message')
    if (!fields.has('text')) fields.set('text', view.state.doc.toString())
    fields.set('line', line.number)
    fields.set('column', Array.from(line.text.slice(0, position - line.from)).length + 1)
    const answer = await window.fetch(path, { method: 'POST', body: new URLSearchParams(fields) }).catch(function () { return null })
    return answer && answer.ok && !answer.redirected ? answer.json() : null
  }

  const TYPES = { key: 'property', value: 'enum', function: 'function', word: 'keyword', table: 'namespace', type: 'class', field: 'variable' }
  async function complete (context) {
    const line = context.state.doc.lineAt(context.pos)
    const before = line.text.slice(0, context.pos - line.from)
    if (!/[\w|(.-]$/.test(before.trimEnd().slice(-1)) && !context.explicit) return null
    const made = await ask('/playground/complete', context.pos, false)
    if (!made || context.aborted || !made.items.length) return null
    const from = line.from + Array.from(line.text).slice(0, made.start - 1).join('').length
    return {
      from: from,
      options: made.items.map(function (item, place) {
        return { label: item.label, apply: item.insert, type: TYPES[item.kind], detail: item.detail, info: item.text || undefined, boost: -Math.min(place, 99) }
      }),
      validFor: /^\w*$/
    }
  }

  let pointed = 0
  async function point () {
    const panel = document.getElementById('at-cursor')
    const mine = ++pointed
    if (!view || !panel) return
    const made = await ask('/playground/word', view.state.selection.main.head, true)
    if (mine !== pointed) return
    panel.replaceChildren()
    if (!made) return
    for (const part of made.text.split('\n\n').filter(Boolean)) {
      const paragraph = put(panel, 'p')
      part.split('`').forEach(function (text, number) {
        if (number % 2) put(paragraph, 'code', text)
        else paragraph.append(text)
      })
    }
    if (made.file && !(made.file === open() && made.line === view.state.doc.lineAt(view.state.selection.main.head).number)) {
      const link = put(put(panel, 'p'), 'a', 'Go to ' + made.file + ':' + made.line)
      link.href = '#editor'
      link.addEventListener('click', function (event) {
        event.preventDefault()
        show(made.file, made.line)
      })
    }
  }

  /* Lit both ways. */
  function plainly (source) {
    return source.replace(/\(1\)/g, '').replace(/\[[^\]]*\]/g, '')
  }
  function fieldOf (source) {
    return plainly(source).split('.')[0].split('(')[0]
  }
  function dark () {
    for (const one of result.querySelectorAll('.lit')) one.classList.remove('lit')
  }
  function put (parent, name, text, cls) {
    const one = document.createElement(name)
    if (text) one.textContent = text
    if (cls) one.className = cls
    parent.append(one)
    return one
  }
  function ruleOf (row) {
    return row.lastElementChild.firstElementChild.textContent
  }
  function linkTo (row) {
    return row.querySelector('a[data-file]').cloneNode(true)
  }
  function lightSource (row) {
    const source = plainly(row.dataset.source)
    if (!source) return
    for (const cell of result.querySelectorAll('[data-source][data-segment="' + row.dataset.segment + '"]')) {
      const path = cell.dataset.source
      if (cell !== row && (path === source || path.startsWith(source + '.') || source.startsWith(path + '.'))) cell.classList.add('lit')
    }
  }
  function told (head) {
    const detail = document.getElementById('chosen')
    detail.replaceChildren()
    put(detail, 'p').append(head)
    return detail
  }
  function chooseElement (number) {
    const row = document.getElementById('e' + number)
    dark()
    for (const one of result.querySelectorAll('[data-origin="' + number + '"]')) one.classList.add('lit')
    row.classList.add('lit')
    lightSource(row)
    const cells = row.cells
    const detail = told(Object.assign(document.createElement('b'), { className: 'mono', textContent: cells[0].textContent }))
    const facts = put(detail, 'dl', '', 'facts')
    put(facts, 'dt', 'Rule')
    const rule = put(facts, 'dd')
    put(rule, 'code', ruleOf(row))
    rule.append(' ', linkTo(row))
    put(facts, 'dt', 'From')
    put(facts, 'dd', row.dataset.source ? cells[2].textContent + (cells[3].textContent ? ': ' + cells[3].textContent : '') : 'a constant of the mapping')
    put(facts, 'dt', 'Value')
    put(facts, 'dd', cells[1].textContent)
    const link = row.querySelector('a[data-file]')
    if (link.dataset.file === open()) go(Number(link.dataset.at))
  }
  function chooseField (path, segment) {
    dark()
    const rows = Array.from(result.querySelectorAll('tr[data-element]')).filter(function (row) {
      return fieldOf(row.dataset.source) === path && row.dataset.segment === segment
    })
    for (const cell of result.querySelectorAll('[data-segment="' + segment + '"]')) {
      if (cell.dataset.source && !cell.dataset.element && fieldOf(cell.dataset.source) === path) cell.classList.add('lit')
    }
    const detail = told(Object.assign(document.createElement('b'), { textContent: path + ' is read by' }))
    const list = put(detail, 'ul')
    for (const row of rows) {
      row.classList.add('lit')
      for (const one of result.querySelectorAll('[data-origin="' + row.dataset.element + '"]')) one.classList.add('lit')
      const item = put(list, 'li')
      put(item, 'span', row.cells[0].textContent, 'mono')
      item.append(' by ')
      put(item, 'code', ruleOf(row))
      item.append(' ', linkTo(row))
    }
  }

  result.addEventListener('click', function (event) {
    const link = event.target.closest('a')
    if (!link) return
    if (link.dataset.origin) chooseElement(link.dataset.origin)
    else if (link.dataset.field) chooseField(link.dataset.field, link.dataset.segment)
    else if (link.dataset.file) show(link.dataset.file, link.dataset.at)
    else return
    event.preventDefault()
  })

  function show (file, line) {
    document.getElementById('editor').scrollIntoView({ block: 'start' })
    if (file === open()) go(Number(line))
    else window.htmx.ajax('POST', '/playground/open', { source: form, target: '#editor', swap: 'innerHTML', values: { wanted: file, new: '', line: line } })
  }

  document.addEventListener('htmx:beforeSwap', function (event) {
    if (new URL(event.detail.xhr.responseURL, window.location.href).pathname !== '/log-in') return
    event.detail.shouldSwap = false
    say('Your session has ended. Copy what you want to keep, then log in again.')
  })
  for (const name of ['htmx:responseError', 'htmx:sendError']) {
    document.addEventListener(name, function (event) {
      const status = event.detail.xhr.status
      say(status ? 'This was refused (' + status + '). Reload the page and try again.' : 'The engine does not answer.')
    })
  }
  function say (text) {
    result.replaceChildren()
    put(result, 'p', text, 'notice bad').setAttribute('role', 'alert')
  }
  function takeProblems () {
    const told = result.querySelector('[data-problems]')
    if (!told) return
    problems = JSON.parse(told.dataset.problems)
    mark()
  }
  document.addEventListener('htmx:afterSwap', function (event) {
    if (event.detail.target.id === 'editor') mount()
    else if (event.detail.target === result) takeProblems()
  })
  takeProblems()
  mount()
  /* Nothing may be wrong yet: this wakes the process that tries, before anybody waits for it. */
  check()
})()
