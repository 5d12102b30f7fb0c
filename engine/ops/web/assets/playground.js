/* The playground beyond HTML: an editor with completion and errors where they stand; a value of the plan lights its rule
   and its field, a field what reads it. Without this file links and forms do the same. */
(function () {
  'use strict'
  const form = document.getElementById('playground')
  const result = document.getElementById('result')
  const cm = window.codemirror
  if (!form || !result || !cm) return
  const CHECK_AFTER = 700
  const schemas = new Map()
  let view = null
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
    if (!readOnly) schemaOf(source.dataset.kind)
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

  /* Completion: the place of the cursor, by margins and braces, and what the schema knows there. */
  async function schemaOf (kind) {
    if (!schemas.has(kind)) {
      schemas.set(kind, window.fetch('/playground/schema/' + kind).then(function (answer) { return answer.ok && !answer.redirected ? answer.json() : null }))
    }
    return schemas.get(kind)
  }

  function keyOf (text) {
    const found = /^(\s*(?:- +)*)(?:"([^"]+)"|'([^']+)'|([^\s:#'"{[-][^:#{[]*?))\s*:(?:\s|$)/.exec(text)
    return found ? { margin: found[1].length, key: found[2] || found[3] || found[4] } : null
  }

  function pathAt (doc, line, before) {
    const path = []
    const open = before.lastIndexOf('{')
    let margin = before.search(/[^\s-]|$/)
    if (open > before.lastIndexOf('}')) {
      const own = keyOf(before.slice(0, open + 1).replace(/\{$/, ' ')) || keyOf(before)
      if (own) path.unshift(own.key)
      const inner = /([\w.]+):\s*[^,{}]*$/.exec(before.slice(open + 1))
      if (inner) path.push(inner[1])
    } else {
      const own = keyOf(before)
      if (own) path.push(own.key)
    }
    for (let number = line - 1; number > 0 && margin > 0; number--) {
      const above = keyOf(doc.line(number).text)
      if (above && above.margin < margin) {
        path.unshift(above.key)
        margin = above.margin
      }
    }
    return path
  }

  function says (root, text) {
    const found = new RegExp('^' + root + ':\\s*([A-Za-z0-9]+)', 'm').exec(text)
    return found ? found[1] : ''
  }

  function spread (schema, root, text, seen) {
    if (!schema || seen.has(schema)) return []
    seen.add(schema)
    if (schema.$ref) return spread(root.definitions[schema.$ref.replace('#/definitions/', '')], root, text, seen)
    const below = [...(schema.anyOf || []), ...(schema.allOf || [])]
    if (schema.if) {
      const holds = Object.entries(schema.if.properties || {}).every(function (one) { return one[1].const === says(one[0], text) })
      return holds ? spread(schema.then, root, text, seen) : []
    }
    return [schema, ...below.flatMap(function (one) { return spread(one, root, text, seen) })]
  }

  function at (root, path, text) {
    let here = spread(root, root, text, new Set())
    for (const key of path) {
      here = here.flatMap(function (one) {
        const next = []
        if (one.items) next.push(...spread(one.items, root, text, new Set()).flatMap(function (item) { return child(item, key) }))
        return [...next, ...child(one, key)]
      }).flatMap(function (one) { return spread(one, root, text, new Set()) })
    }
    return [...here, ...here.flatMap(function (one) { return one.items ? spread(one.items, root, text, new Set()) : [] })]
  }

  function child (schema, key) {
    const found = []
    if (schema.properties && schema.properties[key]) found.push(schema.properties[key])
    for (const pattern of Object.keys(schema.patternProperties || {})) {
      if (new RegExp(pattern).test(key)) found.push(schema.patternProperties[pattern])
    }
    if (schema.additionalProperties) found.push(schema.additionalProperties)
    return found
  }

  async function complete (context) {
    const source = document.querySelector('#editor .source')
    const root = source && await schemaOf(source.dataset.kind)
    if (!root) return null
    const line = context.state.doc.lineAt(context.pos)
    const before = line.text.slice(0, context.pos - line.from)
    const word = /[\w.^[\]-]*$/.exec(before)[0]
    if (!word && !context.explicit) return null
    const lead = before.slice(0, before.length - word.length)
    const text = context.state.doc.toString()
    const places = at(root, pathAt(context.state.doc, line.number, lead), text)
    const isValue = /:\s+\S*.*$/.test(lead) && !/[{,]\s*$/.test(lead)
    const options = new Map()
    for (const place of places) {
      if (isValue) {
        for (const value of place.enum || []) options.set(String(value), { label: String(value), type: 'enum' })
        if (/\|\s*$/.test(lead)) functions(place.description || '', options)
      } else {
        for (const [key, one] of Object.entries(place.properties || {})) {
          if (!options.has(key)) options.set(key, { label: key, apply: key + ': ', type: 'property', detail: one.description })
        }
      }
    }
    return options.size ? { from: context.pos - word.length, options: [...options.values()], validFor: /^[\w.^[\]-]*$/ } : null
  }

  function functions (description, options) {
    for (const text of description.split('\n').slice(2)) {
      const name = text.split(':')[0]
      if (/^[a-z-]+$/.test(name)) options.set(name, { label: name, type: 'function', info: text.slice(name.length + 2) })
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
