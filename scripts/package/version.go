package main

import (
	"fmt"
	"regexp"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// version is one version in the words of each registry.
type version struct {
	golang string // v1.2.3-rc.1
	npm    string // 1.2.3-rc.1
	python string // 1.2.3rc1
}

var preRelease = regexp.MustCompile(`^-(alpha|beta|rc)\.(\d+)$`)

// parseVersion accepts releases, alpha, beta and rc with a number, and the version that Go
// makes of a commit.
func parseVersion(name string) (version, error) {
	number := semver.Canonical(name)
	if number == "" || number != name {
		return version{}, fmt.Errorf("-version %s: write v1.2.3 or v1.2.3-rc.1", name)
	}
	suffix := semver.Prerelease(name)
	number = name[1 : len(name)-len(suffix)]
	v := version{golang: name, npm: name[1:], python: number}
	switch pre := preRelease.FindStringSubmatch(suffix); {
	case suffix == "":
	case pre != nil:
		v.python += map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[pre[1]] + pre[2]
	case module.IsPseudoVersion(name):
		at, err := module.PseudoVersionTime(name)
		if err != nil {
			return v, err
		}
		v.python += ".dev" + at.Format("20060102150405")
	default:
		return v, fmt.Errorf("-version %s: write -alpha.N, -beta.N or -rc.N after the number", name)
	}
	return v, nil
}
