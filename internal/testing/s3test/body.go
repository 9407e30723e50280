package s3test

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const checksumHeader = "x-amz-checksum-crc32"

func checksum(content []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(content)))
}

// body returns the content of a put and its checksum: a header, or a trailer behind the
// chunks of the content encoding aws-chunked.
func body(request *http.Request) (content []byte, sum string, err error) {
	if request.Header.Get("X-Amz-Trailer") == "" {
		content, err = io.ReadAll(request.Body)
		return content, request.Header.Get(checksumHeader), err
	}
	lines := bufio.NewReader(request.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, "", err
		}
		length, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(length, 16, 32)
		if err != nil {
			return nil, "", err
		}
		if n == 0 {
			break
		}
		chunk := make([]byte, n+2) // with the end of its line
		if _, err := io.ReadFull(lines, chunk); err != nil {
			return nil, "", err
		}
		content = append(content, chunk[:n]...)
	}
	line, err := lines.ReadString('\n')
	name, value, found := strings.Cut(strings.TrimSpace(line), ":")
	if err == nil && (!found || name != request.Header.Get("X-Amz-Trailer")) {
		err = errors.New("want the trailer that X-Amz-Trailer names")
	}
	return content, value, err
}
