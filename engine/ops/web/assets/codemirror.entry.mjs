/* What of CodeMirror the playground uses; SOURCES.md says how codemirror.min.js is made of it. */
import { autocompletion, closeCompletion, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language'
import { lintGutter, setDiagnostics } from '@codemirror/lint'
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search'
import { EditorState, StateEffect, StateField } from '@codemirror/state'
import { Decoration, drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'

window.codemirror = {
  autocompletion, closeCompletion, completionKeymap, Decoration, defaultKeymap, drawSelection, EditorState, EditorView,
  highlightActiveLine, highlightSelectionMatches, HighlightStyle, history, historyKeymap, keymap, lineNumbers,
  lintGutter, search, searchKeymap, setDiagnostics, StateEffect, StateField, syntaxHighlighting, tags, yaml
}
