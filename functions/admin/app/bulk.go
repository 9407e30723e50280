package app

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// maxStep is how many keys a step of a bulk change handles, all in one change of the log. Tests
// change it.
var maxStep int64 = registry.MaxKeys

// stepTime is how long a step searches for keys.
const stepTime = 3 * time.Second

// Bulk is a change of many keys. It is made step by step, and nothing of it is stored: the
// page or the script that began it continues it.
type Bulk struct {
	Change KeyChange
	IDs    []string
	Filter *KeyFilter // nil if IDs selects the keys
	Total  int64      // keys that its author confirmed; no more are changed
}

// Step is what a step of a bulk change did.
type Step struct {
	Change   uint64 // number of the change of the log; 0 if no key changed
	Done     int64  // keys that were changed
	Skipped  int64  // keys that needed no change or are not active
	Failures []registry.Failure
	Next     string // where the next step begins; empty after the last
	More     bool   // it ended at Total although more keys match
}

// KeyCount returns a number of keys in words, such as "1 key" or "1,200 keys".
func KeyCount(n int64) string {
	if n == 1 {
		return "1 key"
	}
	return limits.Number(n) + " keys"
}

// CheckBulk returns a *policy.InvalidError if the change is refused for every key.
func (r *Registry) CheckBulk(ctx context.Context, set *policy.Set, b Bulk) error {
	first, _, err := r.selectedKeys(ctx, set, b, "", 1)
	if err != nil || len(first) == 0 || first[0].Status != policy.Active {
		return err
	}
	switch b.Change.Action {
	case registry.KeyOverride, registry.KeyPlan:
		k, _ := Changed(b.Change, set, first[0])
		return k.Validate(set, first[0])
	}
	return nil
}

// StepBulk changes up to maxStep keys, after those before a position that is empty for the
// first step. A repeated step changes no key twice.
func (r *Registry) StepBulk(ctx context.Context, set *policy.Set, b Bulk, after string, e Edit) (
	Step, error) {
	handled, after, err := readPosition(after)
	if err != nil {
		return Step{}, err
	}
	keys, next, err := r.selectedKeys(ctx, set, b, after, int(max(0, min(maxStep, b.Total-handled))))
	if err != nil {
		return Step{}, err
	}
	var s Step
	var ids []string
	for _, k := range keys {
		if k.Status == policy.Active {
			ids = append(ids, k.ID)
		}
	}
	handled += int64(len(keys))
	if b.Total <= handled {
		next, s.More = "", next != ""
	}
	if next != "" {
		s.Next = strconv.FormatInt(handled, 10) + " " + next
	}
	s.Skipped = int64(len(keys) - len(ids))
	if len(ids) == 0 {
		return s, nil
	}
	many, err := r.store.UpdateMany(ctx, ids, b.Change.Action, e, func(k *policy.Key) error {
		if k.Status == policy.Active {
			b.Change.Alter(k)
		}
		return nil
	})
	s.Change, s.Failures = many.Change, many.Failed
	s.Done, s.Skipped = int64(len(many.Changed)), s.Skipped+int64(len(many.Same))
	return s, Noted(ctx, err)
}

// readPosition reads the Next of a step: how many keys were handled, and the position
// after them in the list.
func readPosition(text string) (handled int64, after string, err error) {
	if text == "" {
		return 0, "", nil
	}
	number, after, _ := strings.Cut(text, " ")
	if handled, err = strconv.ParseInt(number, 10, 64); err != nil || handled < 0 || after == "" {
		return 0, "", errCursor
	}
	return handled, after, nil
}

// selectedKeys returns up to count keys that a bulk change selects after a position, or all
// of its IDs, and the position after them. It searches for stepTime.
func (r *Registry) selectedKeys(ctx context.Context, set *policy.Set, b Bulk, after string, count int) (
	keys []policy.Key, next string, err error) {
	if b.Filter == nil {
		keys, err = r.Many(ctx, set, b.IDs)
		return keys, "", err
	}
	for began := time.Now(); len(keys) < count; {
		found, next, err := r.someKeys(ctx, set, *b.Filter, after, min(count-len(keys), perRead))
		if err != nil {
			return nil, "", err
		}
		keys, after = append(keys, found...), next
		if after == "" || time.Since(began) > stepTime {
			break
		}
	}
	return keys, after, nil
}

// perRead is how many keys of a list are read at a time.
const perRead = 500

func (r *Registry) someKeys(ctx context.Context, set *policy.Set, f KeyFilter, after string, count int) (
	[]policy.Key, string, error) {
	if !f.Computed() {
		page, err := r.List(ctx, set, f, after, count)
		return page.Keys, page.Next, err
	}
	found, err := FindKeys(ctx, r, set, f, after, count)
	keys := make([]policy.Key, len(found.Subjects))
	for i, subject := range found.Subjects {
		keys[i] = subject.Key
	}
	return keys, found.Next, err
}

// FailureText returns why a key could not be changed, as text.
func FailureText(err error) string {
	if invalid, ok := errors.AsType[*policy.InvalidError](err); ok && len(invalid.Fields) > 0 {
		return invalid.Fields[0].Field + " " + invalid.Fields[0].Message
	}
	if errors.Is(err, policy.ErrNotFound) {
		return "deleted meanwhile"
	}
	return "failed"
}

// Bounds of a Review.
const (
	maxReviewed  = 500 // keys that are compared
	maxReviewRow = 10  // keys that are shown
)

// Review compares the first keys that a bulk change selects with what it would make of
// them.
type Review struct {
	Rows   []KeyReview // the first keys that would change
	Read   int         // keys that were compared
	Change int         // those of them that would change
	Whole  bool        // no other keys are selected
}

// KeyReview is a key before and after a change.
type KeyReview struct {
	Before Subject
	After  policy.Key
}

// ReviewBulk compares up to maxReviewed keys, in the order of the steps.
func (r *Registry) ReviewBulk(ctx context.Context, set *policy.Set, b Bulk) (Review, error) {
	keys, next, err := r.selectedKeys(ctx, set, b, "", maxReviewed)
	if err != nil {
		return Review{}, err
	}
	review := Review{Whole: next == ""}
	review.compare(set, b, keys)
	shown := make([]policy.Key, len(review.Rows))
	for i, row := range review.Rows {
		shown[i] = row.Before.Key
	}
	counted, err := Subjects(ctx, r, set, shown)
	for i, s := range counted {
		review.Rows[i].Before = s
	}
	return review, err
}

// compare adds keys to a review.
func (review *Review) compare(set *policy.Set, b Bulk, keys []policy.Key) {
	for _, k := range keys {
		review.Read++
		after, differs := Changed(b.Change, set, k)
		if b.Change.Action != registry.KeyReset && after.Validate(set, k) != nil {
			continue // the change would fail
		}
		if k.Status != policy.Active || !differs {
			continue
		}
		if review.Change++; len(review.Rows) < maxReviewRow {
			review.Rows = append(review.Rows, KeyReview{Subject{Key: k}, after})
		}
	}
}
