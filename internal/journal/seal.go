package journal

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"tidegate/internal/audit"
)

// What an HMAC covers before the content, so that no object is taken for one of another
// kind. No hash of the audit and no item begins so.
const (
	checkpointLabel = "checkpoint"
	segmentLabel    = "segment"
)

// pack encodes a value in packed JSON, behind its HMAC.
func pack(k audit.Key, label string, value any) ([]byte, error) {
	var packed bytes.Buffer
	packed.Write(make([]byte, sha256.Size))
	w := gzip.NewWriter(&packed)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		return nil, fmt.Errorf("encode %s: %w", label, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encode %s: %w", label, err)
	}
	sealed := packed.Bytes()
	copy(sealed, packMAC(k, label, sealed[sha256.Size:]))
	return sealed, nil
}

func packMAC(k audit.Key, label string, packed []byte) []byte {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte(label))
	mac.Write(packed)
	return mac.Sum(nil)
}

// unpack decodes what pack encoded with the same key and label. It fails with
// audit.ErrItem.
func unpack(k audit.Key, label string, sealed []byte, value any) error {
	if len(sealed) < sha256.Size ||
		!hmac.Equal(sealed[:sha256.Size], packMAC(k, label, sealed[sha256.Size:])) {
		return audit.ErrItem
	}
	r, err := gzip.NewReader(bytes.NewReader(sealed[sha256.Size:]))
	if err != nil {
		return audit.ErrItem
	}
	if err := json.NewDecoder(r).Decode(value); err != nil {
		return audit.ErrItem
	}
	return nil
}
