package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	maxPage  = 8 << 20 // bytes of a page of a list
	maxParts = 10_000  // of an upload
)

// Get reads an object, or n bytes of it from an offset if n is not negative, into buffer, piece by piece,
// and calls piece with the offset of each. want is how many bytes it must be. It returns how many were read.
func (c *Client) Get(key string, offset, n, want int64, buffer []byte, piece func(offset int64, b []byte) error) (got int64, err error) {
	began := time.Now()
	err = c.again(func() (err error) {
		got, err = c.get(began, key, offset, n, want, buffer, piece)
		return err
	})
	return got, err
}

// get is Get of a call that began at a time.
func (c *Client) get(began time.Time, key string, offset, n, want int64, buffer []byte, piece func(offset int64, b []byte) error) (int64, error) {
	q := call{method: http.MethodGet, key: key}
	c.query = c.query[:0]
	if n >= 0 {
		q.headers = "Range: bytes=" + strconv.FormatInt(offset, 10) + "-" + strconv.FormatInt(offset+n-1, 10) + "\r\n"
	}
	r, err := c.do(q)
	if err != nil {
		return 0, err
	}
	if n >= 0 && r.StatusCode == http.StatusOK {
		c.drop() // the whole object would follow
		return 0, c.mismatch(r.StatusCode, "the store has ignored that a range was asked for")
	}
	status := http.StatusOK
	if n >= 0 {
		status = http.StatusPartialContent
	}
	if err := c.expect(r, status); err != nil {
		return 0, err
	}
	if r.ContentLength >= 0 && r.ContentLength != want {
		c.drop()
		return 0, c.mismatch(r.StatusCode, "the response has %d bytes; want %d", r.ContentLength, want)
	}
	if n >= 0 && !beginsAt(r.Header.Get("Content-Range"), offset) {
		c.drop()
		return 0, c.mismatch(r.StatusCode, "the response is of the range %q; want one from %d on", c.told(r.Header.Get("Content-Range")), offset)
	}
	if want > 0 {
		if err := c.arrived(); err != nil {
			return 0, c.lost(err)
		}
	}
	c.First = time.Since(began)
	return c.content(r, offset, want, buffer, piece)
}

// arrived returns once a byte of the body is there, or its end.
func (c *Client) arrived() error {
	err := c.conn.SetReadDeadline(time.Now().Add(c.store.Timeout))
	if err == nil {
		_, err = c.in.Peek(1)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// beginsAt reports whether a range, as a response has it, begins at an offset.
func beginsAt(text string, offset int64) bool {
	text, ok := strings.CutPrefix(text, "bytes ")
	first, _, found := strings.Cut(text, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	return ok && found && err == nil && n == offset
}

// content reads the body of a response, which must end after what is wanted.
func (c *Client) content(r *http.Response, offset, want int64, buffer []byte, piece func(int64, []byte) error) (got int64, err error) {
	for got < want {
		n, err := c.read(r, buffer[:min(int64(len(buffer)), want-got)])
		if n > 0 && piece != nil {
			if err := piece(offset+got, buffer[:n]); err != nil {
				c.drop()
				return got, err
			}
		}
		got += int64(n)
		switch {
		case errors.Is(err, io.EOF) && got < want, errors.Is(err, io.ErrUnexpectedEOF):
			err = c.lost(errors.New("the store has closed the connection before the end of the content"))
			return got, err
		case err != nil && err != io.EOF:
			return got, c.lost(err)
		}
	}
	n, err := c.read(r, c.buffer[:1])
	switch {
	case n > 0:
		c.drop()
		return got, c.mismatch(r.StatusCode, "the response has more than %d bytes", want)
	case err != io.EOF:
		return got, c.lost(err)
	case r.Close:
		c.drop()
	}
	return got, nil
}

// Head returns the size of an object.
func (c *Client) Head(key string) (int64, error) {
	var size int64
	err := c.again(func() error {
		c.query = c.query[:0]
		r, err := c.simple(context.Background(), call{method: http.MethodHead, key: key}, http.StatusOK)
		if err == nil {
			size = r.ContentLength
		}
		return err
	})
	return size, err
}

// Delete deletes an object; that there is none is no error.
func (c *Client) Delete(key string) error {
	err := c.again(func() error {
		c.query = c.query[:0]
		_, err := c.simple(context.Background(), call{method: http.MethodDelete, key: key}, http.StatusNoContent, http.StatusOK)
		return err
	})
	if KindOf(err) == NotFound && code(err) == "NoSuchKey" {
		return nil
	}
	return err
}

func code(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Put uploads an object, in parts if it is larger than the store's PartSize. An upload in parts that fails
// is aborted, as far as the store lets it.
func (c *Client) Put(key string, size int64, body Body) error {
	if size > c.store.PartSize {
		return c.putParts(key, size, body)
	}
	return c.again(func() error {
		c.query = c.query[:0]
		_, err := c.simple(context.Background(), call{method: http.MethodPut, key: key, size: size, body: body}, http.StatusOK)
		return err
	})
}

// create begins an upload in parts.
func (c *Client) create(key string) (upload string, err error) {
	err = c.again(func() (err error) {
		upload, err = c.createOnce(key)
		return err
	})
	return upload, err
}

func (c *Client) createOnce(key string) (upload string, err error) {
	c.query = append(c.query[:0], "uploads="...)
	r, err := c.do(call{method: http.MethodPost, key: key})
	if err != nil {
		return "", err
	}
	if err := c.expect(r, http.StatusOK); err != nil {
		return "", err
	}
	b, err := c.document(r, maxError)
	if err != nil {
		return "", err
	}
	if upload = element(b, "UploadId"); upload == "" {
		return "", c.mismatch(r.StatusCode, "the store has begun an upload without an id")
	}
	return upload, nil
}

func (c *Client) putPart(ctx context.Context, key, upload string, number int, at, size int64, body Body) (tag string, err error) {
	err = c.again(func() error {
		c.query = strconv.AppendInt(append(c.query[:0], "partNumber="...), int64(number), 10)
		c.query = appendEscaped(append(c.query, "&uploadId="...), upload, false)
		r, err := c.simple(ctx, call{method: http.MethodPut, key: key, size: size, body: body, from: at}, http.StatusOK)
		if err == nil {
			tag = r.Header.Get("ETag")
		}
		return err
	})
	return tag, err
}

// complete makes the object of an upload. It is never tried again: the first try may have made the object. A store may find out that it cannot after it has begun to respond.
func (c *Client) complete(key, upload string, tags []string) error {
	var b strings.Builder
	b.WriteString("<CompleteMultipartUpload>")
	for i, tag := range tags {
		b.WriteString("<Part><PartNumber>" + strconv.Itoa(i+1) + "</PartNumber><ETag>" + strings.ReplaceAll(tag, "&", "&amp;") + "</ETag></Part>")
	}
	b.WriteString("</CompleteMultipartUpload>")
	c.query = appendEscaped(append(c.query[:0], "uploadId="...), upload, false)
	r, err := c.do(call{method: http.MethodPost, key: key, size: int64(b.Len()), fixed: []byte(b.String())})
	if err != nil {
		return err
	}
	if err := c.expect(r, http.StatusOK); err != nil {
		return err
	}
	doc, err := c.document(r, maxError)
	if err == nil && element(doc, "Code") != "" {
		return c.refused(r.StatusCode, doc)
	}
	return err
}

// Abort ends an upload in parts and deletes them; that there is none is no error. It is not tried again.
func (c *Client) Abort(key, upload string) error {
	c.query = appendEscaped(append(c.query[:0], "uploadId="...), upload, false)
	_, err := c.simple(context.Background(), call{method: http.MethodDelete, key: key}, http.StatusNoContent, http.StatusOK)
	if KindOf(err) == NotFound {
		return nil
	}
	return err
}

// A Page is a part of a list.
type Page struct {
	Keys []string
	Next string // what the next page begins with; empty if there is none
}

// List returns a page of the objects whose keys begin with a prefix; next is empty or Next of the page
// before it. With flat only those that have no slash after the prefix are in it.
func (c *Client) List(prefix, next string, flat bool, most int) (p Page, err error) {
	err = c.again(func() (err error) {
		p, err = c.list(prefix, next, flat, most)
		return err
	})
	return p, err
}

func (c *Client) list(prefix, next string, flat bool, most int) (p Page, err error) {
	q := c.query[:0]
	if next != "" {
		q = append(appendEscaped(append(q, "continuation-token="...), next, false), '&')
	}
	if flat {
		q = append(q, "delimiter=%2F&"...)
	}
	q = strconv.AppendInt(append(q, "list-type=2&max-keys="...), int64(most), 10)
	c.query = appendEscaped(append(q, "&prefix="...), prefix, false)
	b, err := c.page("ListBucketResult")
	if err != nil {
		return p, err
	}
	for key := range elements(b, "Key") {
		p.Keys = append(p.Keys, key)
	}
	if element(b, "IsTruncated") != "true" {
		return p, nil
	}
	if p.Next = element(b, "NextContinuationToken"); p.Next == "" || p.Next == next {
		return Page{}, c.mismatch(http.StatusOK, noEnd)
	}
	return p, nil
}

// noEnd is what is wrong with a list that cannot be read to its end.
const noEnd = "the store has sent a part of a list without where the next one begins"

// A Walk is the way through the pages of a list. It finds out that a store repeats a continuation token, however many
// pages a circle has, and remembers one place only.
type Walk struct {
	seen  string
	pages int // since seen
	limit int // when the next place is remembered
}

// On takes what the next page begins with. It is an error if the walk was there before.
func (w *Walk) On(c *Client, next string) error {
	if next == w.seen {
		return c.mismatch(http.StatusOK, "the store repeats a continuation token: a part of a list begins where an earlier one did")
	}
	if w.pages++; w.pages > w.limit {
		w.seen, w.pages, w.limit = next, 0, 2*w.limit+1
	}
	return nil
}

// page returns a list of what is in the bucket: a document whose root is an element of that name.
func (c *Client) page(root string) ([]byte, error) {
	r, err := c.do(call{method: http.MethodGet})
	if err != nil {
		return nil, err
	}
	if err := c.expect(r, http.StatusOK); err != nil {
		return nil, err
	}
	b, err := c.document(r, maxPage)
	if err == nil && !bytes.Contains(b, []byte("<"+root)) {
		err = c.mismatch(r.StatusCode, "the store has not sent a %s", root) // but a list of buckets, or a page for people
	}
	return b, err
}

// An Upload is one in parts that is neither complete nor aborted.
type Upload struct{ Key, ID string }

// Uploads returns a page of the uploads of objects whose keys begin with a prefix; after is empty or next of the page
// before it. next is empty if there is none. It is not tried again: plans, preparations and cleanups call it.
func (c *Client) Uploads(prefix string, after Upload) (all []Upload, next Upload, err error) {
	q := c.query[:0]
	if after.Key != "" {
		q = append(appendEscaped(append(q, "key-marker="...), after.Key, false), '&')
	}
	q = appendEscaped(append(q, "prefix="...), prefix, false)
	if after.Key != "" {
		q = appendEscaped(append(q, "&upload-id-marker="...), after.ID, false)
	}
	c.query = append(q, "&uploads="...)
	b, err := c.page("ListMultipartUploadsResult")
	if code(err) == "NoSuchUpload" { // of stores that have none at all
		return nil, next, nil
	}
	if err != nil {
		return nil, next, err
	}
	for text := range elements(b, "Upload") {
		all = append(all, Upload{element([]byte(text), "Key"), element([]byte(text), "UploadId")})
	}
	if element(b, "IsTruncated") == "true" {
		next = Upload{element(b, "NextKeyMarker"), element(b, "NextUploadIdMarker")}
		if next.Key == "" || next == after {
			return nil, Upload{}, c.mismatch(http.StatusOK, noEnd)
		}
	}
	return all, next, nil
}
