package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"tidegate/internal/store/keyspace"
)

// Store keeps objects by name. It is safe for concurrent use. A name consists of letters,
// digits and hyphens, with slashes between its parts.
type Store interface {
	// Create stores an object. It fails with ErrExists if the name is taken. After a nil
	// error the object is durable.
	Create(ctx context.Context, name string, content []byte) error
	// Replace stores an object under a name, which may be taken, unless keep returns true
	// for the stored object. An object that another Replace stores meanwhile is not lost:
	// keep decides about it, too.
	Replace(ctx context.Context, name string, content []byte, keep func(stored []byte) bool) error
	// Read returns an object. It fails with ErrNotFound.
	Read(ctx context.Context, name string) ([]byte, error)
}

var (
	// ErrExists means that the name is taken.
	ErrExists = errors.New("journal: the object exists")
	// ErrNotFound means that no object has the name.
	ErrNotFound = errors.New("journal: no such object")
)

// OpenStore returns the store at an address:
// s3://BUCKET[/PREFIX][?region=R][&endpoint=URL], or the path of a folder, which
// OpenStore creates if needed.
func OpenStore(address string) (Store, error) {
	switch {
	case address == "":
		return nil, errors.New("journal: no address")
	case strings.HasPrefix(address, s3Scheme):
		return openS3(address)
	case strings.Contains(address, "://"):
		scheme, _, _ := strings.Cut(address, "://")
		return nil, fmt.Errorf("journal: cannot use %s://: give s3://BUCKET or the path of a folder", scheme)
	}
	return openFolder(address)
}

// CheckAddress reports what is wrong with an address, without opening it.
func CheckAddress(address string) error {
	if strings.HasPrefix(address, s3Scheme) {
		_, err := parseS3(address)
		return err
	}
	if strings.Contains(address, "://") {
		return errors.New("must be s3://BUCKET or the path of a folder")
	}
	return nil
}

// entryName names the entry at a position of a bucket's chain. Its parts keep a folder at
// 1,000 files.
func entryName(b keyspace.Bucket, number uint64) string {
	return fmt.Sprintf("entry/%02x/%09d/%03d", byte(b), number/1000, number%1000)
}

// checkpointName names the checkpoint of a bucket.
func checkpointName(b keyspace.Bucket) string { return fmt.Sprintf("checkpoint/%02x", byte(b)) }

// segmentName names the segment of a bucket whose oldest entry has this number.
func segmentName(b keyspace.Bucket, first uint64) string {
	return fmt.Sprintf("history/%02x/%09d", byte(b), first)
}

// gapName names the mark of a gap: the entries of a bucket after this number were made
// without a journal, and a checkpoint follows them. gapsName exists if there is any gap.
func gapName(b keyspace.Bucket, number uint64) string {
	return fmt.Sprintf("gap/%02x/%09d", byte(b), number)
}

const gapsName = "gaps"

// folder is a Store of files. An object appears whole: it is written under a temporary
// name, synced to disk, and then linked or renamed to its own.
type folder struct{ root string }

func openFolder(path string) (folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return folder{}, fmt.Errorf("journal: %w", err)
	}
	return folder{path}, nil
}

// Create implements Store.
func (f folder) Create(_ context.Context, name string, content []byte) error {
	return f.put(name, content, os.Link)
}

// replacing makes a folder's Replace one step. One process at a time uses a folder.
var replacing sync.Mutex

// Replace implements Store.
func (f folder) Replace(ctx context.Context, name string, content []byte, keep func([]byte) bool) error {
	replacing.Lock()
	defer replacing.Unlock()
	stored, err := f.Read(ctx, name)
	switch {
	case err == nil && keep(stored):
		return nil
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	}
	return f.put(name, content, os.Rename)
}

func (f folder) put(name string, content []byte, place func(from, to string) error) error {
	if _, err := os.Stat(f.root); err != nil { // the disk is not mounted: the folder must not be created
		return fmt.Errorf("journal: %w", err)
	}
	path := filepath.Join(f.root, filepath.FromSlash(name))
	dir := filepath.Dir(path)
	if err := f.makeDir(dir); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	temporary, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // gone after a rename
	if _, err = temporary.Write(content); err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = place(temporary.Name(), path)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return ErrExists
	case err != nil:
		return fmt.Errorf("journal: %w", err)
	}
	return syncDir(dir)
}

// makeDir creates a folder and those above it, and syncs their names to disk.
func (f folder) makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for at := filepath.Dir(dir); len(at) >= len(f.root); at = filepath.Dir(at) {
		if err := syncDir(at); err != nil {
			return err
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// Read implements Store.
func (f folder) Read(_ context.Context, name string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(f.root, filepath.FromSlash(name)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(f.root); err != nil { // the disk is not mounted
			return nil, fmt.Errorf("journal: %w", err)
		}
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("journal: %w", err)
	}
	return content, nil
}

const (
	s3Scheme = "s3://"
	// s3Attempts is the number of attempts of one request. If the first attempt of a
	// conditional put succeeded, the second is refused: the caller compares the contents.
	s3Attempts = 3
	// s3Dial bounds connecting to S3, which a gateway endpoint routes inside the VPC.
	s3Dial = time.Second
	// s3MaxObject bounds a read, in bytes. At a million keys, a bucket's checkpoint has
	// 2 MB.
	s3MaxObject = 256 << 20
)

// s3Address is a parsed address of a bucket.
type s3Address struct{ bucket, prefix, region, endpoint string }

func parseS3(address string) (s3Address, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return s3Address{}, errors.New("must be s3://BUCKET[/PREFIX], without a user")
	}
	a := s3Address{bucket: u.Host, prefix: strings.Trim(u.Path, "/"), region: os.Getenv("AWS_REGION")}
	for name, values := range u.Query() {
		switch name {
		case "region":
			a.region = values[0]
		case "endpoint":
			a.endpoint = values[0]
		default:
			return s3Address{}, fmt.Errorf("has an unknown parameter %q: use region or endpoint", name)
		}
	}
	if a.region == "" {
		return s3Address{}, errors.New("needs a region: set AWS_REGION or add ?region=REGION")
	}
	if a.prefix != "" {
		a.prefix += "/"
	}
	return a, nil
}

// bucket is a Store in S3.
type bucket struct {
	client *s3.Client
	s3Address
}

func openS3(address string) (bucket, error) {
	a, err := parseS3(address)
	if err != nil {
		return bucket{}, fmt.Errorf("journal: the address %w", err)
	}
	return newBucket(a, &http.Transport{
		DialContext:     (&net.Dialer{Timeout: s3Dial}).DialContext,
		MaxIdleConns:    64,
		IdleConnTimeout: 20 * time.Second, // S3 closes idle connections
		MaxConnsPerHost: 64, MaxIdleConnsPerHost: 64,
		ForceAttemptHTTP2: false,
	}), nil
}

// newBucket returns the store at an address. Every put has a checksum, since S3 refuses
// one without in a bucket with Object Lock.
func newBucket(a s3Address, transport http.RoundTripper) bucket {
	options := s3.Options{
		Region: a.region, Credentials: aws.CredentialsProviderFunc(credentials),
		HTTPClient: &http.Client{Transport: transport}, RetryMaxAttempts: s3Attempts,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
	}
	if a.endpoint != "" {
		options.BaseEndpoint, options.UsePathStyle = aws.String(a.endpoint), true
	}
	return bucket{s3.New(options), a}
}

// credentials returns the credentials that Lambda sets in the environment.
func credentials(context.Context) (aws.Credentials, error) {
	c := aws.Credentials{
		AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken: os.Getenv("AWS_SESSION_TOKEN"), Source: "environment",
	}
	if !c.HasKeys() {
		return aws.Credentials{}, errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set")
	}
	return c, nil
}

// Create implements Store.
func (b bucket) Create(ctx context.Context, name string, content []byte) error {
	return b.put(ctx, name, content, nil)
}

// Replace implements Store.
func (b bucket) Replace(ctx context.Context, name string, content []byte, keep func([]byte) bool) error {
	for {
		stored, tag, err := b.get(ctx, name)
		switch {
		case errors.Is(err, ErrNotFound):
			tag = nil
		case err != nil:
			return err
		case keep(stored):
			return nil
		}
		if err = b.put(ctx, name, content, tag); !errors.Is(err, ErrExists) || ctx.Err() != nil {
			return err
		}
	}
}

// put stores an object in place of the one with an entity tag, or of none if tag is nil.
// It fails with ErrExists if there is another one. S3 answers 409 to one of two concurrent
// conditional puts, which put then tries again.
func (b bucket) put(ctx context.Context, name string, content []byte, tag *string) error {
	in := &s3.PutObjectInput{Bucket: &b.bucket, Key: aws.String(b.prefix + name), IfMatch: tag}
	if tag == nil {
		in.IfNoneMatch = aws.String("*")
	}
	for {
		in.Body = bytes.NewReader(content)
		_, err := b.client.PutObject(ctx, in)
		switch code(err) {
		case "ConditionalRequestConflict":
			if ctx.Err() == nil {
				continue
			}
		case "PreconditionFailed", "NoSuchKey": // the latter if the tagged object was deleted
			return ErrExists
		}
		if err != nil {
			return fmt.Errorf("journal: put: %w", err)
		}
		return nil
	}
}

// Read implements Store.
func (b bucket) Read(ctx context.Context, name string) ([]byte, error) {
	content, _, err := b.get(ctx, name)
	return content, err
}

// get returns an object and its entity tag.
func (b bucket) get(ctx context.Context, name string) (content []byte, tag *string, err error) {
	object, err := b.client.GetObject(ctx,
		&s3.GetObjectInput{Bucket: &b.bucket, Key: aws.String(b.prefix + name)})
	if code(err) == "NoSuchKey" {
		return nil, nil, ErrNotFound
	}
	if err != nil {
		return nil, nil, fmt.Errorf("journal: get: %w", err)
	}
	defer func() { _ = object.Body.Close() }()
	if content, err = io.ReadAll(io.LimitReader(object.Body, s3MaxObject)); err != nil {
		return nil, nil, fmt.Errorf("journal: get: %w", err)
	}
	return content, object.ETag, nil
}

// code returns S3's code of an error; empty if the error is not from S3.
func code(err error) string {
	if known, ok := errors.AsType[smithy.APIError](err); ok {
		return known.ErrorCode()
	}
	return ""
}
