package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
)

// StageFile has the flags of a stage, so that the next deployment has those of the last.
// ./scripts/stage writes it.
type StageFile struct {
	// Flags are the stage's flags by name, without the stage itself.
	Flags map[string]string `json:"flags"`
	// Fixed has the values, defaults included, that cannot change while the stack exists.
	Fixed map[string]string `json:"fixed"`
}

// StageFolder is the folder of stage files inside the folder of the CDK app.
const StageFolder = "stages"

// ReadStage reads a stage's file from a folder; nil if it has none.
func ReadStage(folder, stage string) (*StageFile, error) {
	if !stageName.MatchString(stage) {
		return nil, fmt.Errorf("-c stage=%s: %s", stage, wantStage)
	}
	text, err := os.ReadFile(filepath.Join(folder, stage+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, err
	}
	var f StageFile
	if err := json.Unmarshal(text, &f); err != nil {
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

// Set changes flags: an empty value removes one. It refuses what cannot change, and does
// not change f after an error.
func (f *StageFile) Set(stage string, values map[string]string) error {
	flags := maps.Clone(f.Flags)
	if flags == nil {
		flags = map[string]string{}
	}
	for name, value := range values {
		if name == "stage" {
			return errors.New("stage: another stage has another file")
		}
		if flags[name] = value; value == "" && f.Flags[name] != "" {
			delete(flags, name) // also one that is no flag any more
		}
	}
	next := StageFile{Flags: flags, Fixed: f.Fixed}
	p, err := next.Props(stage)
	if err != nil {
		return err
	}
	maps.DeleteFunc(flags, func(_, value string) bool { return value == "" })
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

// Props returns the stage's props. It refuses what differs from Fixed.
func (f *StageFile) Props(stage string) (Props, error) {
	values := maps.Clone(f.Flags)
	if values == nil {
		values = map[string]string{}
	}
	values["stage"] = stage
	p, err := Read(values)
	if err != nil {
		return p, err
	}
	return p, f.compare(stage, fixed(p))
}

// compare returns an error for each value that cannot become what it is now.
func (f *StageFile) compare(stage string, now map[string]string) error {
	var errs []error
	for _, name := range sorted(f.Fixed) {
		was, is := f.Fixed[name], now[name]
		older := slices.Index(versions, is) < slices.Index(versions, was)
		if was == is || name == "valkeyVersion" && !older {
			continue
		}
		errs = append(errs, fmt.Errorf("-c %s=%s: was %s, and cannot change: %s. Deploy another stage, "+
			"or delete this one's stack and begin anew with ./scripts/stage -new %s", name, is,
			cmp.Or(was, "the default"), reasons()[name], stage))
	}
	return errors.Join(errs...)
}

// fixed returns the values that cannot change, by flag. What is off can be turned on.
func fixed(p Props) map[string]string {
	all := map[string]string{}
	eachFixed(reflect.ValueOf(p), func(flag, _ string, value reflect.Value) {
		if flag == "replicas" && p.Store.Kind != Nodes || value.Kind() == reflect.Bool && !value.Bool() {
			return
		}
		all[flag] = text(value.Interface())
	})
	return all
}

// reasons returns why each fixed flag cannot change.
func reasons() map[string]string {
	all := map[string]string{}
	eachFixed(reflect.ValueOf(Props{}), func(flag, reason string, _ reflect.Value) { all[flag] = reason })
	return all
}

// FixedFlags returns the names of the flags that cannot change.
func FixedFlags() []string { return sorted(reasons()) }

func eachFixed(part reflect.Value, visit func(flag, reason string, value reflect.Value)) {
	for i := range part.NumField() {
		field, tag := part.Field(i), part.Type().Field(i).Tag
		if field.Kind() == reflect.Struct {
			eachFixed(field, visit)
		} else if reason := tag.Get("fixed"); reason != "" {
			visit(tag.Get("flag"), reason, field)
		}
	}
}
