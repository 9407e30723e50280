package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var errProtocol = errors.New("not what a Valkey server or client sends")

// replySize returns the length of the reply (RESP 2) that b begins with, 0 when b holds
// only a part of it.
func replySize(b []byte) (int, error) {
	size := lineSize(b)
	if size == 0 {
		return 0, nil
	}
	switch b[0] {
	case '+', '-', ':':
		return size, nil
	case '$':
		n := decimal(b[1 : size-2])
		if n >= 0 {
			size += n + 2
		}
		if size > len(b) {
			return 0, nil
		}
		return size, nil
	case '*':
		for range decimal(b[1 : size-2]) {
			item, err := replySize(b[size:])
			if item == 0 || err != nil {
				return 0, err
			}
			size += item
		}
		return size, nil
	}
	return 0, fmt.Errorf("%w: %.20q", errProtocol, b)
}

// lineSize returns the length of b's first line, with its end; 0 when that has not come
// yet.
func lineSize(b []byte) int { return bytes.IndexByte(b, '\n') + 1 }

// decimal parses a number that is known to be valid.
func decimal(b []byte) int {
	n, sign := 0, 1
	for _, c := range b {
		if c == '-' {
			sign = -1
		} else {
			n = 10*n + int(c-'0')
		}
	}
	return sign * n
}

// leaves lists the values in complete replies, also those in arrays: integers as
// decimals, a missing value as "".
func leaves(b []byte) []string {
	var values []string
	for len(b) > 0 {
		size := lineSize(b)
		kind, line := b[0], b[1:size-2]
		b = b[size:]
		switch {
		case kind == '*':
		case kind != '$':
			values = append(values, string(line))
		case line[0] == '-':
			values = append(values, "")
		default:
			n := decimal(line)
			values = append(values, string(b[:n]))
			b = b[n+2:]
		}
	}
	return values
}

// number reads a leaf as an integer; 0 if it is none.
func number(leaf string) int64 {
	n, _ := strconv.ParseInt(leaf, 10, 64)
	return n
}

// commandNames lists the commands that a client sent, in lower case. Requests are arrays
// of strings, which replySize reads as well.
func commandNames(sent []byte) ([]string, error) {
	var names []string
	for len(sent) > 0 {
		size, err := replySize(sent)
		if err != nil {
			return nil, err
		}
		words := []string(nil)
		if size > 0 {
			words = leaves(sent[:size])
		}
		if len(words) == 0 {
			return nil, fmt.Errorf("%w: %.20q", errProtocol, sent)
		}
		names = append(names, strings.ToLower(words[0]))
		sent = sent[size:]
	}
	return names, nil
}
