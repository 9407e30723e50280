package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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

	empty map[string]bool // by the plan's id: whether its list of keys has none
	cut   map[string]bool // by the name of a list: whether its last page has a token for more
}

// page is one answer of the AWS CLI.
type page struct {
	Items       []json.RawMessage `json:"items"`
	Position    string            `json:"position"`
	NextToken   string            `json:"NextToken"`
	UsagePlanID string            `json:"usagePlanId"` // not of AWS: the plan of a piped page of keys
}

// readExport reads every .json file of a folder, or a stream of answers if from is "-".
// It recognises lists by their items. The keys of a plan must be in a file named after
// the plan's id, or in pages with usagePlanId.
func readExport(from string, in io.Reader) (*export, error) {
	e := &export{members: map[string][]planKey{}, empty: map[string]bool{}, cut: map[string]bool{}}
	if from == "-" {
		return e, errors.Join(e.read(in, "the pipe", ""), e.complete())
	}
	root, err := os.OpenRoot(from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // only read from
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		file, err := root.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // only read from
		return e.read(file, path, strings.TrimSuffix(filepath.Base(path), ".json"))
	})
	if err != nil {
		return nil, err
	}
	return e, e.complete()
}

// complete returns errors for lists without their last page, for plans without a list of
// their keys beside others (the AWS CLI leaves an empty file when AWS throttles it), and
// for keys of unknown plans. It also does for API stages without an API or a stage, since such a
// pattern would open every API, and for quotas of an unknown period, since the plan would
// not be limited by them.
func (e *export) complete() error {
	var errs []error
	for list, cut := range e.cut {
		if cut {
			errs = append(errs, fmt.Errorf("%s: the last page is missing: export all pages", list))
		}
	}
	known, withKeys := map[string]bool{}, len(e.keys)+len(e.members) > 0
	for _, p := range e.plans {
		known[p.ID] = true
		if withKeys && len(p.APIStages) > 0 && e.members[p.ID] == nil && !e.empty[p.ID] {
			errs = append(errs, fmt.Errorf("%s: the export has no list of its keys: aws apigateway "+
				"get-usage-plan-keys --usage-plan-id %s", p, p.ID))
		}
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
			errs = append(errs, fmt.Errorf("keys of usage plan %s: unknown plan: name a file of "+
				"get-usage-plan-keys after its plan's id", id))
		}
	}
	if len(errs) == 0 && len(e.plans) == 0 && len(e.keys) == 0 {
		errs = append(errs, errors.New("the export has no usage plans and no keys"))
	}
	return errors.Join(errs...)
}

// read reads answers until the end of the input. Errors do not repeat the input.
func (e *export) read(in io.Reader, name, base string) error {
	text := bufio.NewReader(in)
	head, _ := text.Peek(3) // an input of fewer bytes is no JSON object, or empty
	switch {
	case len(head) < 3:
	case head[0] == 0 || head[1] == 0 || head[0] >= 0xfe && head[1] >= 0xfe:
		return fmt.Errorf("%s is UTF-16, as PowerShell's > writes it: save it as UTF-8", name)
	case string(head) == "\ufeff":
		_, _ = text.Discard(len(head)) // the byte order mark, which was read already
	}
	for d := json.NewDecoder(text); ; {
		var p page
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s is not JSON of the AWS CLI, near byte %d", name, d.InputOffset())
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
	if p.Items != nil && len(p.Items) == 0 {
		e.empty[base] = true
	}
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
			err = appendTo(e.members, base, item)
		case kind.Enabled != nil:
			list = "API keys"
			e.keys, err = appended(e.keys, item)
		default:
			list = "usage plans"
			e.plans, err = appended(e.plans, item)
		}
		if err != nil {
			return fmt.Errorf("item %s has a field of another type than in AWS's answers", kind.ID)
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
