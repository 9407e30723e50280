package migrate

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// readKeyFile reads a key file, which API Gateway's import-api-keys takes:
//
//	https://docs.aws.amazon.com/apigateway/latest/developerguide/api-key-file-format.html
//
// A key has no id there. It gets the file's name and its line. Of keys with one value the
// last one counts.
func (e *export) readKeyFile(text []byte, name string) error {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord, r.TrimLeadingSpace = -1, true
	header, err := r.Read()
	if err != nil {
		return errors.New("is not a CSV file")
	}
	columns := map[string]int{}
	for i, column := range header {
		columns[strings.ToLower(strings.TrimSpace(column))] = i
	}
	for _, column := range []string{"name", "key"} {
		if _, found := columns[column]; !found {
			return fmt.Errorf("is not a key file of import-api-keys: it has no column %q", column)
		}
	}
	_, plans := columns["usageplanids"]
	e.allListed = e.allListed || plans
	for {
		row, err := r.Read()
		var invalid *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &invalid):
			return fmt.Errorf("has invalid quotes in line %d", invalid.Line)
		case err != nil:
			return err
		}
		line, _ := r.FieldPos(0)
		row = joinQuoted(row)
		field := func(column string) string {
			if i, found := columns[column]; found && i < len(row) {
				return strings.TrimSpace(row[i])
			}
			return ""
		}
		key := apiKey{ID: fmt.Sprintf("%s:%d", name, line), Value: secret(field("key")),
			Name: field("name"), Description: field("description")}
		switch strings.ToLower(field("enabled")) {
		case "", "true":
			key.Enabled = true
		case "false":
		default:
			return fmt.Errorf("line %d: enabled must be true or false", line)
		}
		e.fileKeys = append(e.fileKeys, key)
		e.filePlans[key.ID] = strings.FieldsFunc(field("usageplanids"), func(r rune) bool {
			return r == ',' || r == ' '
		})
	}
}

// joinQuoted joins the fields of a row that a pair of single quotes encloses.
func joinQuoted(row []string) []string {
	from := slices.IndexFunc(row, func(field string) bool { return strings.HasPrefix(field, "'") })
	if from < 0 {
		return row
	}
	to := slices.IndexFunc(row[from:], func(field string) bool { return strings.HasSuffix(field, "'") })
	if to < 0 {
		return row
	}
	joined := strings.Trim(strings.Join(row[from:from+to+1], ","), "'")
	return slices.Replace(slices.Clone(row), from, from+to+1, joined)
}

// mergeFileKeys adds the keys of key files to those of get-api-keys. A key that both have,
// by its value, keeps its id. Of rows with one value the last one counts.
func (e *export) mergeFileKeys() {
	listed := map[secret]string{} // ids
	for _, k := range e.keys {
		if k.Value != "" {
			listed[k.Value] = k.ID
		}
	}
	ids, seen := map[string]string{}, map[secret]bool{} // ids by those of the rows that count
	var kept []apiKey
	for _, k := range slices.Backward(e.fileKeys) {
		if seen[k.Value] {
			continue
		}
		seen[k.Value] = true
		if id, found := listed[k.Value]; found {
			ids[k.ID] = id
			continue
		}
		ids[k.ID] = k.ID
		kept = append(kept, k)
	}
	slices.Reverse(kept)
	e.keys = append(e.keys, kept...)
	for _, k := range e.fileKeys {
		for _, plan := range e.filePlans[k.ID] {
			if id, found := ids[k.ID]; found {
				e.members[plan] = append(e.members[plan], planKey{ID: id, Value: k.Value, Name: k.Name})
			}
		}
	}
}
