// Package static has the files that browsers load: scripts, stylesheet, font and icon.
// Pages link to their names, and the server sends them.
//
// Each page loads one script, and a second one if it has charts, since every request may
// start another environment of the function. So Load joins the libraries and our scripts.
// Each of our scripts becomes a function of its own: its names are not visible to others.
package static

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"path"
	"regexp"
	"strings"
	"sync"
)

// The libraries come from npm packages; libraries/update renews them.
//
//go:embed *.js app.css icon.svg libraries/*.js libraries/*.woff2
var sources embed.FS

// scripts are our scripts of every page, in the order in which they run: resume.js marks
// the form that auto.js sends.
var scripts = []string{"live.js", "ticking.js", "zone.js", "until.js", "palette.js", "keyboard.js",
	"menu.js", "theme.js", "toast.js", "copy.js", "resume.js", "auto.js",
	"bulk.js", "sheet.js", "filters.js", "retry.js"}

// font is Inter, for Latin letters. Browsers show others in the system's font.
const font = "inter-latin-wght-normal.woff2"

// Bundle is the names of the files that pages load, and the files.
type Bundle struct {
	Script string // of every page
	Chart  string // the script of pages with charts, after Script
	Style  string
	Icon   string
	Font   string // which the stylesheet names
	files  map[string]string
}

// File returns a file's content, and whether there is one with the name.
func (b *Bundle) File(name string) (content string, found bool) {
	content, found = b.files[name]
	return content, found
}

// Load returns the files, which never change.
var Load = sync.OnceValue(func() *Bundle {
	b := &Bundle{files: map[string]string{}}
	b.Script = b.add("app.js", source("libraries/htmx.min.js")+"\n"+source("libraries/hx-csp.min.js")+"\n"+
		ours(scripts...))
	b.Chart = b.add("chart.js", source("libraries/uPlot.iife.min.js")+ours("chart.js"))
	b.Font = b.add(font, source("libraries/"+font))
	style := styleComment.ReplaceAllString(source("app.css"), "")
	b.Style = b.add("app.css", strings.Replace(style, font, b.Font, 1))
	b.Icon = b.add("icon.svg", source("icon.svg"))
	return b
})

// add adds a file, and returns its name with a hash of the content, so that browsers may
// keep the file for ever.
func (b *Bundle) add(name, content string) string {
	hash := sha256.Sum256([]byte(content))
	extension := path.Ext(name)
	name = strings.TrimSuffix(name, extension) + "-" + hex.EncodeToString(hash[:6]) + extension
	b.files[name] = content
	return name
}

// Comments make compressed files 5 % larger, so browsers get none.
var (
	scriptComment = regexp.MustCompile(`(?m)^\s*//.*\n`) // on lines of their own
	styleComment  = regexp.MustCompile(`(?s)\s*/\*.*?\*/`)
)

// ours joins scripts of ours.
func ours(names ...string) string {
	var all strings.Builder
	for _, name := range names {
		all.WriteString("(() => {\n'use strict';\n")
		all.WriteString(scriptComment.ReplaceAllString(source(name), ""))
		all.WriteString("})();\n")
	}
	return all.String()
}

// source returns an embedded file.
func source(name string) string {
	content, err := sources.ReadFile(name)
	if err != nil {
		panic(err) // of a name that is not embedded, which TestLoad would find
	}
	return string(content)
}
