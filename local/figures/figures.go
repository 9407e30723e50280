// Package figures reads and writes bench.json, which several benchmarks share.
package figures

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Figure is one row.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Put puts the figures into a file, in place of all whose names begin with the prefix. The file need not exist.
func Put(file, prefix string, figures []Figure) error {
	var all []Figure
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", file, err)
	}
	all = slices.DeleteFunc(all, func(f Figure) bool { return strings.HasPrefix(f.Name, prefix) })
	return Write(file, append(all, figures...))
}

// Write writes the figures alone.
func Write(file string, figures []Figure) error {
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the figures: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}
