// Package browsertest looks at the pages of pistore in a real headless Chromium:
// that they run without an error, show nothing unescaped, can be worked by
// keyboard, and can be read in both themes at every width. It is a module of its
// own, so that nobody else gets its dependencies.
package browsertest
