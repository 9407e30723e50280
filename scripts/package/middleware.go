package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
)

const (
	nodeFolder   = "web/middleware/node"
	pythonFolder = "web/middleware/python"
	// unreleased is the version in the packages' own files.
	unreleased = `"0.0.0"`
)

// read returns a file of a package, which stands in one of the folders.
func read(name string, folders ...string) (file, error) {
	for _, folder := range folders {
		if content, err := os.ReadFile(path.Join(folder, name)); err == nil {
			return file{name, 0o644, content}, nil
		}
	}
	return file{}, fmt.Errorf("%s is in none of %s", name, folders)
}

// npm packs the middleware in JavaScript as npm pack does.
func (r *releaser) npm() error {
	manifest, err := read("package.json", nodeFolder)
	if err != nil {
		return err
	}
	var p struct{ Files []string }
	if err := json.Unmarshal(manifest.content, &p); err != nil {
		return fmt.Errorf("%s/package.json: %w", nodeFolder, err)
	}
	files := []file{{"package/package.json", 0o644, r.versioned(manifest, r.version.npm)}}
	for _, name := range append(p.Files, "README.md", "LICENSE") {
		f, err := read(name, nodeFolder, path.Dir(nodeFolder), ".")
		if err != nil {
			return err
		}
		f.name = "package/" + name
		files = append(files, f)
	}
	packed, err := tarball(files)
	return r.write("tidegate-"+r.version.npm+".tgz", packed, err)
}

func (r *releaser) versioned(manifest file, version string) []byte {
	return []byte(strings.Replace(string(manifest.content), unreleased, `"`+version+`"`, 1))
}

// python packs the middleware in Python as a source distribution and as a wheel.
func (r *releaser) python() error {
	project, err := read("pyproject.toml", pythonFolder)
	if err != nil {
		return err
	}
	project.content = r.versioned(project, r.version.python)
	code, err := read("tidegate.py", pythonFolder)
	if err != nil {
		return err
	}
	readme, err := read("README.md", path.Dir(pythonFolder))
	if err != nil {
		return err
	}
	license, err := read("LICENSE", ".")
	if err != nil {
		return err
	}
	metadata := file{"PKG-INFO", 0o644, pythonMetadata(project, readme)}
	name := "tidegate-" + r.version.python
	source, err := tarball(below(name, project, code, readme, license, metadata))
	if err := r.write(name+".tar.gz", source, err); err != nil {
		return err
	}
	metadata.name = "METADATA"
	license.name = "licenses/LICENSE"
	tags := file{"WHEEL", 0o644, []byte("Wheel-Version: 1.0\nGenerator: tidegate\n" +
		"Root-Is-Purelib: true\nTag: py3-none-any\n")}
	files := append([]file{code}, below(name+".dist-info", metadata, tags, license)...)
	wheel, err := zipOf(append(files, wheelRecord(name+".dist-info/RECORD", files)))
	return r.write(name+"-py3-none-any.whl", wheel, err)
}

// below returns files in a folder of the archive.
func below(folder string, files ...file) []file {
	var moved []file
	for _, f := range files {
		f.name = folder + "/" + f.name
		moved = append(moved, f)
	}
	return moved
}

// projectField matches the texts of pyproject.toml that the metadata repeat.
var projectField = regexp.MustCompile(`(?m)^(name|version|description|requires-python) = "(.*)"$`)

func pythonMetadata(project, readme file) []byte {
	field := map[string]string{}
	for _, match := range projectField.FindAllStringSubmatch(string(project.content), -1) {
		field[match[1]] = match[2]
	}
	return []byte("Metadata-Version: 2.4\nName: " + field["name"] + "\nVersion: " + field["version"] +
		"\nSummary: " + field["description"] + "\nLicense-Expression: Apache-2.0" +
		"\nLicense-File: LICENSE\nRequires-Python: " + field["requires-python"] +
		"\nDescription-Content-Type: text/markdown\n\n" + string(readme.content))
}

// wheelRecord lists the files of a wheel with their hashes; itself without one.
func wheelRecord(name string, files []file) file {
	var lines strings.Builder
	for _, f := range files {
		sum := sha256.Sum256(f.content)
		fmt.Fprintf(&lines, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]),
			len(f.content))
	}
	return file{name, 0o644, []byte(lines.String() + name + ",,\n")}
}
