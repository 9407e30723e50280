package sitetest

import (
	"io/fs"
	"maps"
	"os"
	"strings"
	"sync"
	"testing/fstest"

	"tidegate/internal/apikey"
)

// kept is what a registry had when it was new: its Valkey, its log and its keys.
type kept struct {
	hashes     map[string][]string // fields and values in turn
	sets       map[string]map[string]float64
	log        fstest.MapFS
	ids, names map[string]string
	secrets    map[string]apikey.Secret
}

// copies has the new registries of the process by the names of their keys. Later ones are
// copies, since the embedded server takes a second of processor time to make one.
var copies sync.Map

// restore makes an empty registry a copy, if there was one with these keys.
func (r *Registry) restore(names []string) bool {
	found, known := copies.Load(strings.Join(names, " "))
	if !known {
		return false
	}
	k := found.(kept)
	for name, fields := range k.hashes {
		r.Server.HSet(name, fields...)
	}
	for name, entries := range k.sets {
		for entry, score := range entries {
			_, err := r.Server.ZAdd(name, score, entry)
			r.Must(err)
		}
	}
	r.Must(os.CopyFS(r.LogAt, k.log))
	r.IDs, r.Names, r.Secrets = maps.Clone(k.ids), maps.Clone(k.names), maps.Clone(k.secrets)
	return true
}

// keep keeps a new registry for restore.
func (r *Registry) keep(names []string) {
	k := kept{hashes: map[string][]string{}, sets: map[string]map[string]float64{}, log: fstest.MapFS{},
		ids: maps.Clone(r.IDs), names: maps.Clone(r.Names), secrets: maps.Clone(r.Secrets)}
	for _, name := range r.Server.Keys() {
		switch kind := r.Server.Type(name); kind {
		case "hash":
			fields, err := r.Server.HKeys(name)
			r.Must(err)
			for _, field := range fields {
				k.hashes[name] = append(k.hashes[name], field, r.Server.HGet(name, field))
			}
		case "zset":
			set, err := r.Server.SortedSet(name)
			r.Must(err)
			k.sets[name] = maps.Clone(set) // the server changes its own
		default:
			r.T.Fatalf("%s is a %s", name, kind)
		}
	}
	root := os.DirFS(r.LogAt)
	r.Must(fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, path)
		k.log[path] = &fstest.MapFile{Data: content, Mode: 0o600}
		return err
	}))
	copies.Store(strings.Join(names, " "), k)
}
