package migrate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"tidegate/internal/policy"
)

// secret is the value of a key or a token. Formatting a secret prints no part of it.
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

// quota is the number of calls that API Gateway allows in a period.
type quota struct {
	Limit  int64  `json:"limit"`
	Offset int64  `json:"offset"` // subtracted in the first period only
	Period string `json:"period"` // DAY, WEEK or MONTH
}

// apiStage is an API's stage that the keys of a plan may call.
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

// export is an export of usage plans, in the order of the files.
type export struct {
	plans   []usagePlan
	keys    []apiKey
	members map[string][]planKey // by the plan's id

	fileKeys  []apiKey            // of key files, until all files are read
	filePlans map[string][]string // by the id of a key of a key file
	listed    map[string]bool     // by the plan's id: whether its keys are listed, even if it has none
	allListed bool                // a key file lists the plans of each key
	cut       map[string]bool     // by the name of a list: whether its last page has a token for more
	at        map[string]int      // by list and id: the place of an item
	others    map[string]int      // by list and field: the number of items with a field of another name
	notRead   []string            // files
}

// readExport reads the files of a folder, one file, or a stream of answers if from is "-".
// It recognises lists by their items. The keys of a plan must be in a file named after
// the plan's id, or in pages with usagePlanId.
func readExport(from string, in io.Reader) (*export, error) {
	e := &export{members: map[string][]planKey{}, listed: map[string]bool{}, cut: map[string]bool{},
		at: map[string]int{}, others: map[string]int{}, filePlans: map[string][]string{}}
	if from == "-" {
		return e, errors.Join(e.read(in, "the pipe"), e.complete())
	}
	folder, only := from, "."
	if info, err := os.Stat(from); err == nil && !info.IsDir() {
		folder, only = filepath.Split(from)
	}
	root, err := os.OpenRoot(cmp.Or(folder, "."))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // only read from
	err = fs.WalkDir(root.FS(), only, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !slices.Contains([]string{".json", ".yaml", ".yml", ".csv"}, filepath.Ext(path)) {
			e.notRead = append(e.notRead, path)
			return nil
		}
		file, err := root.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // only read from
		return e.read(file, path)
	})
	if err != nil {
		return nil, err
	}
	return e, e.complete()
}

// complete returns errors for lists without their last page, for keys of unknown plans,
// for API stages without an API or a stage, since such a pattern would open every API, and
// for quotas of an unknown period, since the plan would not be limited by them.
func (e *export) complete() error {
	e.mergeFileKeys()
	var errs []error
	for list, cut := range e.cut {
		if cut {
			errs = append(errs, fmt.Errorf("%s: the last page is missing: export all pages", list))
		}
	}
	known := map[string]bool{}
	for _, p := range e.plans {
		known[p.ID] = true
		if p.Quota != nil && periods[p.Quota.Period].perYear == 0 {
			errs = append(errs, fmt.Errorf("%s: its quota has the unknown period %q: must be DAY, WEEK "+
				"or MONTH", p, clipped(p.Quota.Period, policy.MaxNameLen)))
		}
		for _, s := range p.APIStages {
			if strings.Trim(s.APIID, "*") == "" || strings.Trim(s.Stage, "*") == "" {
				errs = append(errs,
					fmt.Errorf("%s: an API stage has no apiId or no stage: export the plan again", p))
			}
		}
	}
	for id := range e.members {
		if !known[id] {
			errs = append(errs, fmt.Errorf("keys of usage plan %s: unknown plan: export the usage plans "+
				"too, and name a file of get-usage-plan-keys after its plan's id", id))
		}
	}
	if len(errs) == 0 && len(e.plans) == 0 && len(e.keys) == 0 {
		errs = append(errs, errors.New("the export has no usage plans and no keys"))
	}
	return errors.Join(errs...)
}

// unlisted returns the plans that open a stage, and whose keys the export does not list.
func (e *export) unlisted() []usagePlan {
	return slices.DeleteFunc(slices.Clone(e.plans), func(p usagePlan) bool {
		return e.allListed || e.listed[p.ID] || len(p.APIStages) == 0
	})
}

// read reads a file. Errors do not repeat the input.
func (e *export) read(in io.Reader, name string) error {
	text, err := readText(in)
	if err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	extension := filepath.Ext(name)
	if extension == ".csv" {
		if err := e.readKeyFile(text, name); err != nil {
			return fmt.Errorf("%s %w", name, err)
		}
		return nil
	}
	all, err := pages(text)
	if err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	base := strings.TrimSuffix(filepath.Base(name), extension)
	for _, p := range all {
		if err := e.add(p, cmp.Or(p.UsagePlanID, base)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
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
			return errors.New("an item has no id, or a field of another type than in AWS's answers")
		}
		var err error
		switch {
		case kind.Type != nil:
			list = "keys of usage plan " + base
			e.members[base], err = appended(e, list, e.members[base], kind.ID, item)
		case kind.Enabled != nil:
			list = apiKeys
			e.keys, err = appended(e, list, e.keys, kind.ID, item)
		default:
			list = "usage plans"
			e.plans, err = appended(e, list, e.plans, kind.ID, item)
		}
		if err != nil {
			return fmt.Errorf("item %s %w", kind.ID, err)
		}
	}
	if list == "" || e.members[base] != nil {
		e.listed[base] = true
	}
	if list != "" {
		e.cut[list] = p.Position != "" || p.NextToken != ""
	}
	return nil
}

const apiKeys = "API keys"

// appended adds an item to a list, unless the list has it already.
func appended[T any](e *export, name string, list []T, id string, item json.RawMessage) ([]T, error) {
	var value T
	if err := json.Unmarshal(item, &value); err != nil {
		return nil, errors.New("has a field of another type than in AWS's answers")
	}
	at, again := e.at[name+"\x00"+id]
	if !again {
		e.at[name+"\x00"+id] = len(list)
		e.countOthers(name, item, reflect.TypeFor[T]())
		return append(list, value), nil
	}
	if known, isKey := any(&list[at]).(*apiKey); isKey { // exported with values, and without
		key, _ := any(&value).(*apiKey)
		known.Value, key.Value = cmp.Or(known.Value, key.Value), cmp.Or(key.Value, known.Value)
	}
	if !reflect.DeepEqual(list[at], value) {
		return nil, fmt.Errorf("is in the export twice, and differs: remove the older export of %s", name)
	}
	return list, nil
}

// countOthers counts the fields of an item that of does not have.
func (e *export) countOthers(list string, item json.RawMessage, of reflect.Type) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(item, &fields) // the item is an object
	for _, field := range reflect.VisibleFields(of) {
		delete(fields, field.Tag.Get("json"))
	}
	for name := range fields {
		if strings.HasPrefix(list, "keys of ") { // get-api-keys has more of these keys
			continue
		}
		e.others[name+" of "+list]++
	}
}

// plansOf returns, by the key's id, the plans of each key that open a stage. They are in
// the export's order.
func (e *export) plansOf() map[string][]usagePlan {
	of, known := map[string][]usagePlan{}, map[[2]string]bool{} // by the ids of a key and a plan
	for _, p := range e.plans {
		if len(p.APIStages) == 0 {
			continue
		}
		for _, m := range e.members[p.ID] {
			if !known[[2]string{m.ID, p.ID}] {
				known[[2]string{m.ID, p.ID}] = true
				of[m.ID] = append(of[m.ID], p)
			}
		}
	}
	return of
}
