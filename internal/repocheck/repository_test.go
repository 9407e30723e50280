package repocheck

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
	"testing"
	"unicode/utf8"
)

// file is one of the repository's text files.
type file struct {
	path string
	mode fs.FileMode
	text string
}

func (f file) lines() int { return strings.Count(f.text, "\n") }

// source is a Go file that a person wrote.
type source struct {
	file
	ast *ast.File
}

// repository is what the rules read.
type repository struct {
	files   []file
	sources []source
}

func (r repository) find(path string) (file, bool) {
	for _, f := range r.files {
		if f.path == path {
			return f, true
		}
	}
	return file{}, false
}

// Folders that git ignores, or that hold programs which tests build.
var skipped = map[string]bool{".git": true, "build": true, "node_modules": true, "dist": true,
	"testdata": true, "cdk.out": true}

func load(t *testing.T, root fs.FS) repository {
	t.Helper()
	var r repository
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped[entry.Name()]:
			return fs.SkipDir
		case !entry.Type().IsRegular() || entry.Name() == ".git": // a file in a linked work tree
			return nil
		}
		return add(&r, root, name, entry)
	})
	if err != nil {
		t.Fatalf("read the repository: %v", err)
	}
	return r
}

func add(r *repository, root fs.FS, name string, entry fs.DirEntry) error {
	content, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	if !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
		return nil
	}
	info, err := entry.Info()
	if err != nil {
		return err
	}
	f := file{path: name, mode: info.Mode(), text: string(content)}
	r.files = append(r.files, f)
	if path.Ext(name) != ".go" {
		return nil
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ParseComments)
	if err != nil {
		return err
	}
	if !ast.IsGenerated(parsed) {
		r.sources = append(r.sources, source{file: f, ast: parsed})
	}
	return nil
}
