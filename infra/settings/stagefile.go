package settings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// StageFile has the settings of a stage, so that the next deployment has those of the
// last. ./scripts/stage writes it.
type StageFile struct {
	// Settings are the props that are not the stage's defaults.
	Settings map[string]any `json:"settings"`
	// Fixed has the values, defaults included, that cannot change while the stack exists.
	Fixed map[string]string `json:"fixed"`
}

// StageFolder is the folder of stage files inside the folder of the CDK app.
const StageFolder = "stages"

// ReadStage reads a stage's file from a folder; nil if it has none.
func ReadStage(folder, stage string) (*StageFile, error) {
	if !isStage(stage) {
		return nil, fmt.Errorf("stage=%s: %s", stage, wantStage)
	}
	text, err := os.ReadFile(filepath.Join(folder, stage+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, err
	}
	var f StageFile
	if err := strictly(text, &f); err != nil {
		return nil, fmt.Errorf("%s/%s.json: %w", StageFolder, stage, err)
	}
	return &f, nil
}

// Write writes a stage's file to a folder.
func (f *StageFile) Write(folder, stage string) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, stage+".json"), append(text, '\n'), 0o600)
}

// Set changes settings: an empty value removes one. A name such as check.JWT_ISSUER is
// that of an entry. Set refuses what cannot change, and does not change f after an error.
func (f *StageFile) Set(stage string, values map[string]string) error {
	next := StageFile{Settings: maps.Clone(f.Settings), Fixed: f.Fixed}
	if next.Settings == nil {
		next.Settings = map[string]any{}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := next.set(name, values[name]); err != nil {
			return err
		}
	}
	p, err := next.Props(stage)
	if err != nil {
		return err
	}
	_, version := values["valkeyVersion"]
	_, units := values["maxECPUs"]
	if len(f.Fixed) > 0 && version && units {
		return errors.New("valkeyVersion, maxECPUs: ElastiCache changes one of them at a time: " +
			"deploy between the two")
	}
	next.Fixed = fixed(p)
	*f = next
	return nil
}

func (f *StageFile) set(name, value string) error {
	if part, entry, ok := strings.Cut(name, "."); ok {
		was, _ := f.Settings[part].(map[string]any)
		entries := maps.Clone(was)
		if entries == nil {
			entries = map[string]any{}
		}
		if entries[entry] = value; value == "" {
			delete(entries, entry)
		}
		f.Settings[part] = entries
		if len(entries) == 0 {
			delete(f.Settings, part)
		}
		return nil // Props checks the name
	}
	probe := strictly([]byte(`{"`+name+`":"x"}`), new(Props))
	if _, had := f.Settings[name]; value == "" && (had || known(probe)) {
		delete(f.Settings, name) // also one that is no setting any more
		return nil
	}
	for _, v := range []any{value, json.RawMessage(value), strings.Split(value, ",")} {
		text, err := json.Marshal(map[string]any{name: v})
		if err == nil && strictly(text, new(Props)) == nil {
			f.Settings[name] = v
			return nil
		}
	}
	return fmt.Errorf("%s=%s: %w", name, value, explain(probe))
}

// known reports whether decoding a text into a setting found the setting.
func known(probe error) bool {
	_, wrongType := errors.AsType[*json.UnmarshalTypeError](probe)
	return probe == nil || wrongType
}

// explain says what a setting must be, from the error of a text in its place.
func explain(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return errors.New("unknown setting: docs/deploy.md lists them")
	}
	switch wrong.Type.Kind().String() {
	case "bool":
		return errors.New("must be true or false")
	case "int":
		return errors.New("must be a whole number")
	}
	return errors.New("must be set by entry, as NAME.ENTRY=VALUE")
}

// strictly decodes JSON without unknown fields.
func strictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// Props returns the stage's props. It refuses what differs from Fixed.
func (f *StageFile) Props(stage string) (Props, error) {
	p := Default(stage)
	text, err := json.Marshal(f.Settings)
	if err != nil {
		return p, err
	}
	if err := strictly(text, &p); err != nil {
		return p, fmt.Errorf("%s/%s.json: %w", StageFolder, stage, err)
	}
	if err := p.Validate(); err != nil {
		return p, err
	}
	return p, f.compare(stage, fixed(p))
}

// compare returns an error for each value that cannot become what it is now.
func (f *StageFile) compare(stage string, now map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(f.Fixed)) {
		was, is := f.Fixed[name], now[name]
		older := slices.Index(versions, is) < slices.Index(versions, was)
		if was == is || name == "valkeyVersion" && !older {
			continue
		}
		errs = append(errs, fmt.Errorf("%s=%s: was %s, and cannot change: %s. Deploy another stage, "+
			"or delete this one's stack and begin anew with ./scripts/stage -new %s", name, is,
			cmp.Or(was, "the default"), reasons[name], stage))
	}
	return errors.Join(errs...)
}

// reasons says why each fixed setting cannot change.
var reasons = map[string]string{
	"cidr":          "the network and the cache would be replaced",
	"zones":         "the subnets and the cache would be replaced",
	"vpc":           "the cache would be replaced",
	"subnets":       "the cache would be replaced",
	"store":         "the new cache would be empty",
	"replicas":      "the cache would be replaced",
	"valkeyVersion": "ElastiCache cannot go back to an older version",
	"snapshot":      "the cache would be replaced",
	"key":           "the cache would be replaced",
	"pepperSecret":  "every API key's hash depends on it",
	"changesBucket": "it has all keys and policies",
}

// fixed returns the values that cannot change, by setting.
func fixed(p Props) map[string]string {
	all := map[string]string{
		"cidr": p.CIDR, "zones": strings.Join(p.Zones, ","), "vpc": p.VPC,
		"subnets": strings.Join(p.Subnets, ","), "store": p.Kind, "valkeyVersion": p.Version,
		"snapshot": p.Snapshot, "key": p.Key, "pepperSecret": p.PepperSecret,
		"changesBucket": p.ChangesBucket,
	}
	if p.Kind == Nodes {
		all["replicas"] = fmt.Sprint(p.Replicas)
	}
	return all
}

// FixedSettings returns the names of the settings that cannot change.
func FixedSettings() []string { return slices.Sorted(maps.Keys(reasons)) }
