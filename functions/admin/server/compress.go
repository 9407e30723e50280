package server

import (
	"compress/gzip"
	"net/http"
	"strings"
	"sync"
)

// withCompression compresses the bodies for clients that accept gzip.
func withCompression(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if !acceptsGzip(r) {
			next.ServeHTTP(w, r)
			return
		}
		c := &compressor{ResponseWriter: w}
		defer c.close()
		next.ServeHTTP(c, r)
	})
}

// acceptsGzip reads Accept-Encoding. A client that prefers something else gets the plain
// body.
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return !strings.HasPrefix(strings.TrimSpace(quality), "q=0")
		}
	}
	return false
}

// compressor sends the header with the first bytes of the body, because a response
// without a body has no encoding.
type compressor struct {
	http.ResponseWriter
	status int          // 0 for 200
	gzip   *gzip.Writer // nil before the first bytes
}

// gzipWriters holds idle writers. A writer takes 800 KB.
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func (c *compressor) WriteHeader(status int) { c.status = status }

func (c *compressor) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.gzip == nil {
		h := c.Header()
		if h.Get("Content-Type") == "" {
			h.Set("Content-Type", http.DetectContentType(p))
		}
		h.Set("Content-Encoding", "gzip")
		h.Del("Content-Length")
		c.sendHeader()
		c.gzip = gzipWriters.Get().(*gzip.Writer) //nolint:forcetypeassert // the pool has no others
		c.gzip.Reset(c.ResponseWriter)
	}
	return c.gzip.Write(p)
}

func (c *compressor) sendHeader() {
	if c.status != 0 {
		c.ResponseWriter.WriteHeader(c.status)
	}
}

func (c *compressor) close() {
	if c.gzip == nil {
		c.sendHeader()
		return
	}
	_ = c.gzip.Close() // fails only after the client disconnected
	gzipWriters.Put(c.gzip)
}

func (c *compressor) Unwrap() http.ResponseWriter { return c.ResponseWriter }
