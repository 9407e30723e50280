package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// secret is a key's value. Formatting it prints no part of it.
type secret string

// String hides the value.
func (secret) String() string { return "…" }

// GoString hides the value.
func (secret) GoString() string { return "…" }

// throttle is a token bucket of API Gateway.
type throttle struct {
	RateLimit  float64 `json:"rateLimit"`
	BurstLimit int64   `json:"burstLimit"`
}

// quota is how many calls a period admits.
type quota struct {
	Limit  int64  `json:"limit"`
	Offset int64  `json:"offset"` // subtracted in the first period only
	Period string `json:"period"` // DAY, WEEK or MONTH
}

// apiStage is a stage whose methods the keys of a plan may call.
type apiStage struct {
	APIID    string              `json:"apiId"`
	Stage    string              `json:"stage"`
	Throttle map[string]throttle `json:"throttle"` // by resource path and method: /pets/{id}/GET
}

func (s apiStage) String() string { return s.APIID + "/" + s.Stage }

// usagePlan is an item of get-usage-plans.
type usagePlan struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	APIStages   []apiStage        `json:"apiStages"`
	Throttle    *throttle         `json:"throttle"`
	Quota       *quota            `json:"quota"`
	ProductCode string            `json:"productCode"`
	Tags        map[string]string `json:"tags"`
}

func (p usagePlan) String() string { return "usage plan " + cmp.Or(p.Name, p.ID) + " (" + p.ID + ")" }

// apiKey is an item of get-api-keys.
type apiKey struct {
	ID          string            `json:"id"`
	Value       secret            `json:"value"`
	Name        string            `json:"name"`
	CustomerID  string            `json:"customerId"`
	Description string            `json:"description"`
	Enabled     bool              `json:"enabled"`
	StageKeys   []string          `json:"stageKeys"`
	Tags        map[string]string `json:"tags"`
}

// planKey is an item of get-usage-plan-keys: a key of a plan.
type planKey struct {
	ID    string `json:"id"`
	Value secret `json:"value"`
	Name  string `json:"name"`
}

// export is everything that was read, in the files' order.
type export struct {
	plans   []usagePlan
	keys    []apiKey
	members map[string][]planKey // by the plan's id

	cut map[string]bool // lists whose last page says that there are more
}

// page is one answer of the AWS command line.
type page struct {
	Items       []json.RawMessage `json:"items"`
	Position    string            `json:"position"`
	NextToken   string            `json:"NextToken"`
	UsagePlanID string            `json:"usagePlanId"` // not AWS's: says whose keys a piped page has
}

// readExport reads every .json file of a folder, or a stream of answers. The items of a
// list show their type. The keys of a plan are in a file named after the plan's id, or in
// a page with usagePlanId.
func readExport(from string, in io.Reader) (*export, error) {
	e := &export{members: map[string][]planKey{}, cut: map[string]bool{}}
	if from == "-" {
		return e, errors.Join(e.read(in, "the pipe", ""), e.complete())
	}
	root, err := os.OpenRoot(from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // it was read
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		file, err := root.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was read
		return e.read(file, path, strings.TrimSuffix(filepath.Base(path), ".json"))
	})
	if err != nil {
		return nil, err
	}
	return e, e.complete()
}

// complete returns errors for lists without their last pages or their plan, and for API
// stages without a name: a pattern without a name opens every API.
func (e *export) complete() error {
	var errs []error
	for list, cut := range e.cut {
		if cut {
			errs = append(errs, fmt.Errorf("%s: the last page says that there are more: export all pages",
				list))
		}
	}
	for _, p := range e.plans {
		for _, s := range p.APIStages {
			if strings.Trim(s.APIID, "*") == "" || strings.Trim(s.Stage, "*") == "" {
				errs = append(errs, fmt.Errorf("%s: an API stage has no apiId or no stage: export it again",
					p))
			}
		}
	}
	for id := range e.members {
		if !slices.ContainsFunc(e.plans, func(p usagePlan) bool { return p.ID == id }) {
			errs = append(errs, fmt.Errorf("keys of usage plan %s: there is no such plan: a file of "+
				"get-usage-plan-keys is named after its plan's id", id))
		}
	}
	if len(errs) == 0 && len(e.plans) == 0 && len(e.keys) == 0 {
		errs = append(errs, errors.New("there are no usage plans and no keys in it"))
	}
	return errors.Join(errs...)
}

// read reads one answer after the other. Errors do not repeat the input.
func (e *export) read(in io.Reader, name, base string) error {
	for d := json.NewDecoder(in); ; {
		var p page
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s is no JSON that the AWS command line prints, near byte %d", name,
				d.InputOffset())
		}
		if p.UsagePlanID != "" {
			base = p.UsagePlanID
		}
		if err := e.add(p, base); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// add adds a page. Its items are all of one kind: keys of a plan have the field type,
// keys have enabled, and plans have neither.
func (e *export) add(p page, base string) error {
	list := ""
	for _, item := range p.Items {
		var kind struct {
			Type    *string `json:"type"`
			Enabled *bool   `json:"enabled"`
			ID      string  `json:"id"`
		}
		if err := json.Unmarshal(item, &kind); err != nil || kind.ID == "" {
			return errors.New("an item has no id, or a field has another type than AWS gives it")
		}
		var err error
		switch {
		case kind.Type != nil:
			list = "keys of usage plan " + base
			err = appendTo(e.members, base, item)
		case kind.Enabled != nil:
			list = "API keys"
			e.keys, err = appended(e.keys, item)
		default:
			list = "usage plans"
			e.plans, err = appended(e.plans, item)
		}
		if err != nil {
			return fmt.Errorf("item %s cannot be read: a field has another type than AWS gives it", kind.ID)
		}
	}
	if list != "" {
		e.cut[list] = p.Position != "" || p.NextToken != ""
	}
	return nil
}

func appended[T any](list []T, item json.RawMessage) ([]T, error) {
	var value T
	err := json.Unmarshal(item, &value)
	return append(list, value), err
}

func appendTo(lists map[string][]planKey, id string, item json.RawMessage) (err error) {
	lists[id], err = appended(lists[id], item)
	return err
}

// plansOf returns the plans of each key that open a stage, by the key's id, in the order
// of the plans.
func (e *export) plansOf() map[string][]usagePlan {
	of := map[string][]usagePlan{}
	for _, p := range e.plans {
		if len(p.APIStages) == 0 {
			continue
		}
		for _, m := range e.members[p.ID] {
			known := slices.ContainsFunc(of[m.ID], func(other usagePlan) bool { return other.ID == p.ID })
			if !known {
				of[m.ID] = append(of[m.ID], p)
			}
		}
	}
	return of
}
