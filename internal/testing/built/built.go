// Package built builds the programs of this repository for tests. Only tests import it.
package built

import (
	"bytes"
	"compress/flate"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// limit bounds the building of one program.
const limit = 10 * time.Minute

// Link puts programs into a folder, built as by ./scripts/build -host if a source has
// changed. programs maps paths in the folder to packages.
//
// go test does not know which programs a test starts. Link reads the state of their
// sources, so that go test repeats a cached test after one has changed. go test notices
// this only while tests run, so call Link in a test and not in TestMain.
func Link(ctx context.Context, folder string, programs map[string]string) error {
	for path, source := range programs {
		program, err := build(ctx, source)
		if err != nil {
			return err
		}
		target := filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		if err := link(ctx, program, target); err != nil {
			return err
		}
	}
	return nil
}

// Folder links programs into a folder of the test.
func Folder(t testing.TB, programs map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	if err := Link(t.Context(), folder, programs); err != nil {
		t.Fatal(err)
	}
	return folder
}

// Program links one program into a folder of the test and returns its path.
func Program(t testing.TB, source string) string {
	t.Helper()
	return filepath.Join(Folder(t, map[string]string{"bootstrap": source}), "bootstrap")
}

// Small fails the test if a program has more than maxBinary bytes, or more than maxZip
// when compressed for Lambda. It is built as by ./scripts/build -host. As deployed it is a
// little smaller, without the path of the repository.
func Small(t testing.TB, source string, maxBinary, maxZip int) {
	t.Helper()
	program, err := build(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("binary %.2f MiB, packed %.2f MiB", float64(len(content))/(1<<20), float64(packed.Len())/(1<<20))
	if len(content) > maxBinary || packed.Len() > maxZip {
		t.Errorf("binary of %d bytes, packed %d: must be at most %d and %d", len(content), packed.Len(),
			maxBinary, maxZip)
	}
}

func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

var once sync.Map // builds a program once in a process, by its package

// build builds a program with the flags of scripts/build into the same folder.
func build(ctx context.Context, source string) (string, error) {
	built, _ := once.LoadOrStore(source, sync.OnceValues(func() (string, error) {
		name := filepath.Base(source)
		switch {
		case strings.HasPrefix(source, "tidegate/functions/"):
			name = filepath.Join(name, "bootstrap")
		case source == "tidegate/local":
			name = "tidegate"
		}
		program := filepath.Join(root(), "build", runtime.GOOS+"_"+runtime.GOARCH, name)
		return program, compile(context.WithoutCancel(ctx), source, program)
	}))
	return built.(func() (string, error))()
}

// compile builds a program, and makes its source files inputs of the test.
func compile(ctx context.Context, source, program string, flags ...string) error {
	arguments := append([]string{"build", "-tags", "lambda.norpc", "-buildvcs=false", "-ldflags=-s -w",
		"-o", program}, flags...)
	if _, err := run(ctx, "go", append(arguments, source)...); err != nil {
		return err
	}
	return statSources(ctx, source)
}

// statSources makes a program's source files inputs of the test, for go test's cache.
func statSources(ctx context.Context, source string) error {
	const files = `{{with .Module}}{{if .Main}}{{.GoMod}}
{{$.Dir}}
{{range $.GoFiles}}{{$.Dir}}/{{.}}
{{end}}{{range $.EmbedFiles}}{{$.Dir}}/{{.}}
{{end}}{{end}}{{end}}`
	list, err := run(ctx, "go", "list", "-deps", "-tags", "lambda.norpc", "-f", files, source)
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		if file := strings.TrimSpace(line); file != "" {
			if _, err := os.Stat(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// link creates a hard link, or a copy on another file system.
func link(ctx context.Context, program, target string) error {
	if os.Link(program, target) == nil {
		return nil
	}
	_, err := run(ctx, "cp", program, target)
	return err
}

func run(ctx context.Context, name string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = root()
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	var out, problems strings.Builder
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s, within %s: %w\n%s", command, limit, err, problems.String())
	}
	return out.String(), nil
}
