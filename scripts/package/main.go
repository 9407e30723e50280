// Command package makes the archives of ./scripts/build and the packages of
// ./scripts/release. The same files give the same bytes on every machine and at any time.
//
//	package zip FILE PROGRAM…                     packs programs for AWS Lambda
//	package release -version V [-module PATH] DIST fills DIST from the repository in the
//	                                              current folder and the programs in build;
//	                                              without DIST only checks the flags
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("error: ")
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	switch {
	case len(args) > 2 && args[0] == "zip":
		return zipPrograms(args[1], args[2:])
	case len(args) > 0 && args[0] == "release":
		return release(args[1:])
	}
	return errors.New("usage: package zip FILE PROGRAM…; package release -version VERSION DIST")
}

// zipPrograms packs programs under their own names, as a function's code.
func zipPrograms(path string, programs []string) error {
	var files []file
	for _, program := range programs {
		content, err := os.ReadFile(program)
		if err != nil {
			return err
		}
		// Lambda runs it as another user.
		files = append(files, file{filepath.Base(program), 0o755, content})
	}
	packed, err := zipOf(files)
	if err != nil {
		return err
	}
	return os.WriteFile(path, packed, 0o644)
}

// release makes the packages, and then the checksums of all that is in dist.
func release(args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	name := flags.String("version", "", "")
	module := flags.String("module", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	v, err := parseVersion(*name)
	if err != nil {
		return err
	}
	if err := checkModule(*module, v.golang); err != nil || flags.NArg() == 0 {
		return err
	}
	r := releaser{dist: flags.Arg(0), version: v, modules: map[string]string{}}
	for _, pack := range []func() error{r.template, r.attach, r.bom, r.licenses, r.image, r.npm, r.python} {
		if err := pack(); err != nil {
			return err
		}
	}
	if err := r.module(*module); err != nil {
		return err
	}
	return r.checksums()
}

// releaser writes the packages of a version to a folder.
type releaser struct {
	dist    string
	version version
	modules map[string]string // versions of the Go modules in the programs, by path
}

func (r *releaser) write(name string, content []byte, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(r.dist, name), content, 0o644)
}

// template copies the CloudFormation template. A test of infra keeps it equal to what the
// CDK makes.
func (r *releaser) template() error {
	text, err := os.ReadFile("infra/testdata/template.json")
	return r.write("tidegate.template.json", text, err)
}

// attach packs the files by which a deployed Tidegate is attached to an API, and the
// Terraform modules.
func (r *releaser) attach() error {
	files, err := tree("infra/attach")
	if err != nil {
		return err
	}
	packed, err := tarball(files)
	return r.write("attach.tar.gz", packed, err)
}

// image packs the build context of the container image.
func (r *releaser) image() error {
	files, err := tree("build/image")
	if err != nil {
		return err
	}
	others, err := os.ReadFile(filepath.Join(r.dist, thirdParty))
	if err != nil {
		return err
	}
	packed, err := tarball(append(files, file{thirdParty, 0o644, others}))
	return r.write("image.tar.gz", packed, err)
}

// tree returns the files below a folder, without tests and what Terraform keeps. Names are
// relative to the folder, and modes only say what can be executed, whatever the umask was.
func tree(folder string) (files []file, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == ".terraform") {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || strings.HasSuffix(path, ".go") {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // nobody else writes to these folders
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		name, err := filepath.Rel(folder, path)
		files = append(files, file{filepath.ToSlash(name), mode, content})
		return err
	})
	return files, err
}

// checksums writes SHA256SUMS, which sha256sum -c reads.
func (r *releaser) checksums() error {
	files, err := tree(r.dist)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(f.content), f.name)
	}
	return r.write("SHA256SUMS", sums.Bytes(), nil)
}
