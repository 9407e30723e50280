// Command bundle builds web/static/dist from htmx, uPlot, our scripts and our stylesheet.
// It minifies and compresses the files, and puts a hash of the content into each name, so
// that browsers may cache it for ever. Run it at the top of the repository after
// `npm ci --ignore-scripts --prefix web`.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/klauspost/compress/gzip"
)

const dist = "web/static/dist"

func main() {
	if err := bundle(); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func bundle() error {
	for _, name := range []string{"htmx.org", "uplot"} {
		if _, err := os.Stat("web/node_modules/" + name); err != nil {
			return fmt.Errorf("web/node_modules lacks %s: run npm ci --ignore-scripts --prefix web at the "+
				"top of the repository", name)
		}
	}
	if err := removeOld(); err != nil {
		return err
	}
	result := api.Build(options())
	if len(result.Errors) > 0 {
		return errors.New(strings.Join(api.FormatMessages(result.Errors, api.FormatMessagesOptions{}), "\n"))
	}
	for _, file := range result.OutputFiles {
		if err := compress(file); err != nil {
			return err
		}
	}
	return writeManifest(result.Metafile)
}

// compress writes the compressed copy of a file that is served. It uses the best
// compression, which would be too slow at each request, of a package that gains 1 % over
// compress/gzip.
func compress(file api.OutputFile) error {
	var compressed bytes.Buffer
	w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(file.Contents); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(file.Path+".gz", compressed.Bytes(), 0o644)
}

func options() api.BuildOptions {
	return api.BuildOptions{
		EntryPoints: []string{"web/static/app.js", "web/static/chart.js", "web/static/app.css",
			"web/static/icon.svg"},
		Outdir:            dist,
		EntryNames:        "[name]-[hash]",
		Bundle:            true,
		Write:             true,
		Metafile:          true,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		LegalComments:     api.LegalCommentsInline,
		Loader:            map[string]api.Loader{".svg": api.LoaderCopy},
		LogLevel:          api.LogLevelWarning,
	}
}

// removeOld empties the folder, except for the committed placeholder that go:embed needs
// on a fresh clone.
func removeOld() error {
	old, err := filepath.Glob(dist + "/[^.]*")
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("remove the bundle made before: %w", err)
		}
	}
	return nil
}

// writeManifest writes the manifest that package static reads: the file name of each
// source, with its hash.
func writeManifest(metafile string) error {
	var meta struct {
		Outputs map[string]struct {
			EntryPoint string              `json:"entryPoint"`
			Inputs     map[string]struct{} `json:"inputs"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return fmt.Errorf("read the bundler's report: %w", err)
	}
	manifest := map[string]string{}
	for output, made := range meta.Outputs {
		source := made.EntryPoint
		for input := range made.Inputs {
			if source == "" {
				source = input
			}
		}
		manifest[filepath.Base(source)] = filepath.Base(output)
	}
	text, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(dist+"/manifest.json", append(text, '\n'), 0o644)
}
