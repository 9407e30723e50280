package main

import (
	"bytes"
	"io"
)

// secrets are the texts that no output may contain.
func (s *session) secrets() []string {
	var all []string
	for _, secret := range []string{s.key, s.token} {
		if secret != "" {
			all = append(all, secret)
		}
	}
	return all
}

func (s *session) redacted(w io.Writer) io.Writer { return &redactor{w, s.secrets()} }

// redactor removes the secrets from what it writes. Each Write must have whole lines.
type redactor struct {
	w       io.Writer
	secrets []string
}

func (r *redactor) Write(p []byte) (int, error) {
	if _, err := r.w.Write(redact(p, r.secrets)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func redact(text []byte, secrets []string) []byte {
	for _, secret := range secrets {
		text = bytes.ReplaceAll(text, []byte(secret), []byte("[secret]"))
	}
	return text
}
