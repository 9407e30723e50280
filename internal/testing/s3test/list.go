package s3test

import (
	"encoding/base64"
	"encoding/xml"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxPage is the largest number of names in a page of a list.
const maxPage = 1000

// page is the answer to ListObjectsV2.
type page struct {
	XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name, Prefix          string
	Delimiter             string `xml:",omitempty"`
	StartAfter            string `xml:",omitempty"`
	ContinuationToken     string `xml:",omitempty"`
	NextContinuationToken string `xml:",omitempty"`
	EncodingType          string `xml:",omitempty"`
	KeyCount, MaxKeys     int
	IsTruncated           bool
	Contents              []listed
	CommonPrefixes        []struct{ Prefix string }
}

type listed struct {
	Key, LastModified, ETag string
	Size                    int
	StorageClass            string
}

// list answers ListObjectsV2. A group of names with a common prefix counts as one.
func (s *Server) list(w http.ResponseWriter, query url.Values) refusal {
	p := page{Name: Bucket, Prefix: query.Get("prefix"), Delimiter: query.Get("delimiter"),
		StartAfter: query.Get("start-after"), ContinuationToken: query.Get("continuation-token"),
		EncodingType: query.Get("encoding-type"), MaxKeys: maxPage}
	if text := query.Get("max-keys"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return refusal{http.StatusBadRequest, "InvalidArgument"}
		}
		p.MaxKeys = min(n, maxPage)
	}
	after, last := p.StartAfter, ""
	if query.Has("continuation-token") {
		token, err := base64.URLEncoding.DecodeString(p.ContinuationToken)
		if err != nil || len(token) == 0 {
			return refusal{http.StatusBadRequest, "InvalidArgument"}
		}
		after, last = string(token), string(token)
	}
	s.fill(&p, after, last)
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(p) // the client reports a short body
	return refusal{}
}

// fill adds the names of objects behind after. last is the name at which the page before
// ended.
func (s *Server) fill(p *page, after, last string) {
	escape := func(text string) string {
		if p.EncodingType == "url" {
			return strings.ReplaceAll(url.QueryEscape(text), "%2F", "/")
		}
		return text
	}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		rest, within := strings.CutPrefix(key, p.Prefix)
		first, _, grouped := strings.Cut(rest, p.Delimiter)
		name := key
		if grouped = grouped && p.Delimiter != ""; grouped {
			name = p.Prefix + first + p.Delimiter
		}
		if !within || name <= last || key <= after {
			continue
		}
		if p.KeyCount == p.MaxKeys {
			p.IsTruncated = p.MaxKeys > 0
			break
		}
		p.KeyCount++
		last = name
		if grouped {
			p.CommonPrefixes = append(p.CommonPrefixes, struct{ Prefix string }{escape(name)})
			continue
		}
		stored := s.objects[key]
		p.Contents = append(p.Contents, listed{escape(key), stored.modified.UTC().Format(time.RFC3339),
			stored.tag(), len(stored.content), "STANDARD"})
	}
	if p.IsTruncated {
		p.NextContinuationToken = base64.URLEncoding.EncodeToString([]byte(last))
	}
}
