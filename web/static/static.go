// Package static embeds the files that web/bundle builds for browsers: the scripts, the
// stylesheet and the icon. The web server serves them; pages link to their names.
package static

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

//go:embed all:dist
var files embed.FS

// Bundle is the files to serve, and the names of those that pages load.
type Bundle struct {
	Files  fs.FS  // by name, which contains a hash; compressed copies have .gz appended
	Script string // name of the script in Files
	Chart  string // name of the script of charts in Files
	Style  string // name of the stylesheet in Files
	Icon   string // name of the icon in Files
}

// Load returns the embedded bundle. It returns an error if the program was built without
// it.
func Load() (Bundle, error) {
	dist, err := fs.Sub(files, "dist")
	if err != nil {
		return Bundle{}, err
	}
	return read(dist)
}

func read(dist fs.FS) (Bundle, error) {
	text, err := fs.ReadFile(dist, "manifest.json")
	if errors.Is(err, fs.ErrNotExist) {
		return Bundle{}, errors.New("this program was built without its stylesheet and script: run " +
			"./scripts/build, which makes them first")
	}
	if err != nil {
		return Bundle{}, fmt.Errorf("read the bundle's manifest: %w", err)
	}
	var names map[string]string
	if err := json.Unmarshal(text, &names); err != nil {
		return Bundle{}, fmt.Errorf("read the bundle's manifest: %w", err)
	}
	b := Bundle{Files: dist, Script: names["app.js"], Chart: names["chart.js"], Style: names["app.css"],
		Icon: names["icon.svg"]}
	for _, name := range []string{b.Script, b.Chart, b.Style, b.Icon} {
		if _, err := fs.Stat(dist, name); name == "" || err != nil {
			return Bundle{}, errors.New("the bundle is not whole: run ./scripts/build, which makes it anew")
		}
	}
	return b, nil
}
