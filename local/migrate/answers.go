package migrate

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxInput bounds a file of an export. 10,000 keys take 3 MB.
const maxInput = 256 << 20

var errNotAnswer = errors.New("is not JSON or YAML of the AWS CLI: export with --output json")

// readText reads a file in UTF-8 or, as Windows PowerShell redirects output, in UTF-16. It
// returns the text in UTF-8 without a byte order mark.
func readText(in io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxInput:
		return nil, fmt.Errorf("has more than %d MiB: split it into files", maxInput>>20)
	case bytes.HasPrefix(text, []byte("\xff\xfe")), len(text) > 1 && text[0] != 0 && text[1] == 0:
		text, err = fromUTF16(text, binary.LittleEndian)
	case bytes.HasPrefix(text, []byte("\xfe\xff")), len(text) > 1 && text[0] == 0 && text[1] != 0:
		text, err = fromUTF16(text, binary.BigEndian)
	}
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))
	switch {
	case err != nil:
		return nil, err
	case !utf8.Valid(text):
		return nil, errors.New("is neither UTF-8 nor UTF-16: save it as UTF-8")
	case len(text) == 0:
		return nil, errors.New("is empty, as a failed command of the AWS CLI leaves it: export it again")
	}
	return text, nil
}

func fromUTF16(text []byte, order binary.ByteOrder) ([]byte, error) {
	if len(text)%2 != 0 {
		return nil, errors.New("is UTF-16 that ends within a character: save it as UTF-8")
	}
	units := make([]uint16, len(text)/2)
	for i := range units {
		units[i] = order.Uint16(text[2*i:])
	}
	return []byte(string(utf16.Decode(units))), nil
}

// page is one answer of the AWS CLI.
type page struct {
	Items       []json.RawMessage `json:"items"`
	Position    string            `json:"position"`
	NextToken   string            `json:"NextToken"`
	UsagePlanID string            `json:"usagePlanId"` // not of AWS: the plan of a piped page of keys
}

// pages returns the answers in a text, one after the other: JSON, YAML, the list of answers
// of --output yaml-stream, or the list of items of --query items.
func pages(text []byte) (all []page, err error) {
	values, err := jsonValues(text)
	if err != nil {
		return nil, err
	}
	for _, value := range values {
		list, isList := []json.RawMessage{value}, value[0] == '['
		if isList && json.Unmarshal(value, &list) != nil {
			return nil, errNotAnswer
		}
		items := page{}
		for _, one := range list {
			var p page
			err := json.Unmarshal(one, &p)
			switch {
			case err != nil:
				return nil, errNotAnswer
			case p.Items != nil || string(one) == "{}":
				all = append(all, p)
			case isList:
				items.Items = append(items.Items, one)
			default:
				return nil, errors.New("has no items: export the answer of get-usage-plans, " +
					"get-usage-plan-keys or get-api-keys")
			}
		}
		if items.Items != nil || len(list) == 0 {
			all = append(all, items)
		}
	}
	return all, nil
}

// jsonValues returns the values in a text. It converts YAML to JSON.
func jsonValues(text []byte) (values []json.RawMessage, err error) {
	if text[0] == '{' || text[0] == '[' {
		for d := json.NewDecoder(bytes.NewReader(text)); ; {
			var value json.RawMessage
			switch err := d.Decode(&value); {
			case errors.Is(err, io.EOF):
				return values, nil
			case err != nil:
				return nil, fmt.Errorf("is not JSON of the AWS CLI, near byte %d", d.InputOffset())
			}
			values = append(values, value)
		}
	}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var root yaml.Node
		switch err := d.Decode(&root); {
		case errors.Is(err, io.EOF):
			return values, nil
		case err != nil || len(root.Content) != 1 || root.Content[0].Kind == yaml.ScalarNode:
			return nil, errNotAnswer
		}
		value, err := fromYAML(root.Content[0], "")
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		values = append(values, text)
	}
}

// fromYAML returns a node as JSON has it. Only the fields with numbers or booleans are
// such: an id such as 12e4567890 is text.
func fromYAML(node *yaml.Node, field string) (any, error) {
	switch node.Kind {
	case yaml.MappingNode:
		value := map[string]any{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			name := node.Content[i].Value
			one, err := fromYAML(node.Content[i+1], name)
			if err != nil {
				return nil, err
			}
			value[name] = one
		}
		return value, nil
	case yaml.SequenceNode:
		value := make([]any, len(node.Content))
		for i, item := range node.Content {
			var err error
			if value[i], err = fromYAML(item, ""); err != nil {
				return nil, err
			}
		}
		return value, nil
	case yaml.ScalarNode:
		var typed any
		switch strings.ToLower(field) {
		case "ratelimit", "burstlimit", "limit", "offset", "enabled":
			err := node.Decode(&typed)
			return typed, err
		}
		if node.ShortTag() == "!!null" {
			return typed, nil
		}
		return node.Value, nil
	default:
		return nil, errNotAnswer // an alias
	}
}
