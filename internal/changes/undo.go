package changes

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"
)

// Undo takes back what a change did, as an ordinary change.
func (l *Log) Undo(ctx context.Context, e Edit, number uint64) (Receipt, error) {
	began := l.o.Now()
	r, err := l.begin(ctx, false)
	if err != nil {
		return Receipt{}, err
	}
	if number > r.newest.Number || number == 0 {
		return Receipt{}, &DamagedError{Number: number, Missing: true}
	}
	c, err := r.change(ctx, number)
	if err := cmp.Or(err, c.bad); err != nil {
		return Receipt{}, err
	}
	items := map[string]Item{}
	for _, i := range c.Items {
		items[i.Record] = i
	}
	return l.revert(ctx, e, began, names(c.Items), func(r *Reader, found Record) ([]byte, error) {
		i := items[found.Name]
		return l.o.Revert(ctx, r, found.Name, found.Content, i.After, i.Before)
	})
}

// revert gives new contents to records, at most MaxItems.
func (l *Log) revert(ctx context.Context, e Edit, began time.Time, records []string,
	to func(*Reader, Record) ([]byte, error)) (Receipt, error) {
	return l.edit(ctx, e, began, func(ctx context.Context, r *Reader) ([]Item, error) {
		found, err := r.Get(ctx, records...)
		if err != nil {
			return nil, err
		}
		var items []Item
		for _, record := range found {
			after, err := to(r, record)
			if err != nil {
				return nil, err
			}
			if !bytes.Equal(after, record.Content) {
				items = append(items, Item{Record: record.Name, After: after})
			}
		}
		return items, nil
	})
}

// RestoreUntil gives all records the contents that they had after a change, as ordinary
// changes of up to MaxItems. Options.Revert decides what is not taken back: what was
// revoked stays revoked. It returns how many changes it made; it can be repeated.
func (l *Log) RestoreUntil(ctx context.Context, e Edit, until uint64) (made int, err error) {
	r, err := l.begin(ctx, false)
	if err != nil {
		return 0, err
	}
	then := map[string][]byte{}
	var records []string
	if err := r.each(ctx, until+1, func(c Change) error {
		for _, i := range c.Items {
			if _, found := then[i.Record]; !found {
				then[i.Record] = i.Before
				records = append(records, i.Record)
			}
		}
		return nil
	}); err != nil {
		return 0, err
	}
	e.ID = "" // each part has its own
	for part := range slices.Chunk(records, MaxItems) {
		receipt, err := l.revert(ctx, e, l.o.Now(), part, func(r *Reader, found Record) ([]byte, error) {
			return l.o.Revert(ctx, r, found.Name, found.Content, found.Content, then[found.Name])
		})
		if err != nil {
			return made, err
		}
		if receipt.Number > 0 {
			made++
		}
	}
	return made, nil
}

// NumberAt returns the number of the last change at a time, by the clock of the store: no
// writer's clock decides.
func (l *Log) NumberAt(ctx context.Context, at time.Time) (number uint64, err error) {
	listed, err := l.store.List(ctx, prefix, "")
	if err != nil {
		return 0, err
	}
	for _, o := range listed {
		if o.Modified.After(at) {
			break
		}
		if number, err = numberOf(o.Name); err != nil {
			return 0, err
		}
	}
	return number, nil
}

// History returns the changes of a record, newest first, beginning with the change that
// the record or an entry of the audit names.
func (l *Log) History(ctx context.Context, record string, number uint64, limit int) ([]Change, error) {
	var found []Change
	for number > 0 && len(found) < limit {
		c, err := l.stored(ctx, number)
		if err == nil {
			err = c.bad
		}
		if err != nil {
			return found, err
		}
		number = 0
		for _, i := range c.Items {
			if i.Record == record {
				found = append(found, c)
				number = i.Last
			}
		}
	}
	return found, nil
}

// Change returns a change. It fails with a *DamagedError if it is missing, damaged or
// nothing.
func (l *Log) Change(ctx context.Context, number uint64) (Change, error) {
	c, err := l.stored(ctx, number)
	return c, cmp.Or(err, c.bad)
}

// Voids returns the number of the change that it says is nothing, 0 for none.
func (c Change) Voids() uint64 {
	for _, v := range c.Void {
		if v.By == c.Number {
			return v.Number
		}
	}
	return 0
}

func names(items []Item) []string {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = item.Record
	}
	return names
}
