package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// ourModule is the module path in the sources. It has no host, so nobody can fetch it.
const ourModule = "tidegate"

// nested are the modules in folders of their own, which the archive leaves out.
var nested = []string{"infra/", "local/bench/", "scripts/tools/"}

// ownImport matches a line that imports one of our packages.
var ownImport = regexp.MustCompile(`(?m)^(\s*(?:import )?(?:[\w.]+ )?")` + ourModule + `((?:/[\w./-]+)?"(?:\s*//.*)?)$`)

// checkModule accepts no path, and paths that Go can fetch in this version.
func checkModule(path, version string) error {
	if path == "" {
		return nil
	}
	if err := module.Check(path, version); err != nil {
		return fmt.Errorf("-module %s: write a path that Go can fetch, such as github.com/OWNER/tidegate: %w",
			path, err)
	}
	return nil
}

// module packs the sources as a Go module of another path, in the files of a module proxy.
// Without a path it packs nothing.
func (r *releaser) module(path string) error {
	if path == "" {
		return nil
	}
	m := module.Version{Path: path, Version: r.version.golang}
	files, goMod, err := moduleFiles(path)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := modzip.Create(&archive, m, files); err != nil {
		return fmt.Errorf("pack the module: %w", err)
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{m.Version, epoch})
	if err != nil {
		return err
	}
	escaped, err := module.EscapePath(path)
	if err != nil {
		return err
	}
	packed, err := tarball(below(escaped+"/@v", file{m.Version + ".info", 0o644, info},
		file{m.Version + ".mod", 0o644, goMod}, file{m.Version + ".zip", 0o644, archive.Bytes()},
		file{"list", 0o644, []byte(m.Version + "\n")}))
	return r.write("go-"+m.Version+".tar.gz", packed, err)
}

// moduleFiles returns the tracked files with the new path in go.mod and in imports.
func moduleFiles(to string) (files []modzip.File, goMod []byte, err error) {
	list, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("list the repository's files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if inNested(name) {
			continue
		}
		content, err := os.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed, and not committed yet
			continue
		case err != nil:
			return nil, nil, err
		case name == "go.mod":
			if content, err = renamedGoMod(content, to); err != nil {
				return nil, nil, err
			}
			goMod = content
		case path.Ext(name) == ".go" || path.Ext(name) == ".templ":
			content = ownImport.ReplaceAll(content, []byte("${1}"+to+"${2}"))
		}
		files = append(files, moduleFile{file{name, 0o644, content}})
	}
	return files, goMod, nil
}

func inNested(name string) bool {
	for _, folder := range nested {
		if strings.HasPrefix(name, folder) {
			return true
		}
	}
	return false
}

func renamedGoMod(content []byte, to string) ([]byte, error) {
	parsed, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		return nil, err
	}
	if err := parsed.AddModuleStmt(to); err != nil {
		return nil, err
	}
	return parsed.Format()
}

// moduleFile is a file of a module's archive.
type moduleFile struct{ file file }

func (f moduleFile) Path() string                { return f.file.name }
func (f moduleFile) Lstat() (fs.FileInfo, error) { return f, nil }
func (f moduleFile) Open() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(f.file.content)), nil
}

func (f moduleFile) Name() string       { return path.Base(f.file.name) }
func (f moduleFile) Size() int64        { return int64(len(f.file.content)) }
func (f moduleFile) Mode() fs.FileMode  { return f.file.mode }
func (f moduleFile) ModTime() time.Time { return epoch }
func (f moduleFile) IsDir() bool        { return false }
func (f moduleFile) Sys() any           { return nil }
