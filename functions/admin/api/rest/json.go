package rest

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"
)

// strictJSON refuses input that JSON parsers interpret differently: duplicate names in an
// object, and text that is not UTF-8.
var strictJSON = huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: unmarshal}

// Bounds of any body. A policy, the largest one, nests 5 levels.
const (
	maxNesting = 16
	maxFields  = 64 // of one object
)

func unmarshal(data []byte, into any) error {
	if _, first := into.(*any); first { // huma decodes each body twice, first to validate it
		if err := checkJSON(data); err != nil {
			return err
		}
	}
	return json.Unmarshal(data, into)
}

func checkJSON(data []byte) error {
	if err := checkNesting(data); err != nil {
		return err
	}
	text := jsontext.Value(data)
	if text.IsValid() {
		return nil
	}
	if !text.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		var anything any
		return json.Unmarshal(data, &anything) // for the message of the standard library
	}
	if text.IsValid(jsontext.AllowDuplicateNames(true)) {
		return errors.New("an object has the same name twice")
	}
	return errors.New("the body is not UTF-8")
}

// checkNesting checks maxNesting and maxFields in one pass, before anything is decoded.
func checkNesting(data []byte) error {
	var fields [maxNesting + 1]int // of the object open at each depth
	depth, inString, escaped := 0, false, false
	for _, c := range data {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			if depth++; depth > maxNesting {
				return fmt.Errorf("the body is nested deeper than %d levels", maxNesting)
			}
			fields[depth] = 0
		case (c == '}' || c == ']') && depth > 0:
			depth--
		case c == ':':
			if fields[depth]++; fields[depth] > maxFields {
				return fmt.Errorf("an object has more than %d fields", maxFields)
			}
		}
	}
	return nil
}
