package events

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// message is a protobuf message that lists its fields, in the order of their
// numbers, for both directions of the codec: fields calls one method of the
// coder a field. Encoding appends what is set. Decoding calls fields as often
// as it takes: every call takes the next field of the input if it is its own,
// so input in field order, which every encoder writes, is one pass.
type message interface {
	fields(c *coder)
}

// keeper is a message that keeps fields it does not know.
type keeper interface{ rest() *[]byte }

type coder struct {
	out      []byte // encoding: what is written so far
	decoding bool

	in  []byte // decoding: the innermost message
	tag int    // where in it the next field's tag starts
	at  int    // where in it the next field's value starts
	num protowire.Number
	typ protowire.Type
	err error

	intern map[string]string // decoding: strings seen before
	owner  keeper            // decoding: the innermost message that keeps fields
	spill  []byte            // decoding: unknown fields of a message that keeps none
}

// next reads the tag at the given place.
func (c *coder) next(at int) {
	c.tag = at
	if at >= len(c.in) {
		c.num = 0
		return
	}
	num, typ, n := protowire.ConsumeTag(c.in[at:])
	if n < 0 {
		c.fail(protowire.ParseError(n))
		return
	}
	c.num, c.typ, c.at = num, typ, at+n
}

func (c *coder) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.num, c.tag, c.at = 0, len(c.in), len(c.in)
}

// left returns the input from the next field's value on.
func (c *coder) left() []byte { return c.in[c.at:] }

// is reports whether the next field is n of type t.
func (c *coder) is(n protowire.Number, t protowire.Type) bool { return c.num == n && c.typ == t }

// took moves on by n bytes of value; n below 0 is an error of protowire.
func (c *coder) took(n int) {
	if n < 0 {
		c.fail(protowire.ParseError(n))
		return
	}
	c.next(c.at + n)
}

// decode fills m from b.
func (c *coder) decode(m message, b []byte) {
	in, tag, at, num, typ, owner := c.in, c.tag, c.at, c.num, c.typ, c.owner
	k, keeps := m.(keeper)
	if keeps {
		c.owner = k
	}
	c.in = b
	c.next(0)
	for c.num != 0 {
		before := c.tag
		m.fields(c)
		if c.num == 0 || c.tag != before {
			continue
		}
		n := protowire.ConsumeFieldValue(c.num, c.typ, c.left())
		if n < 0 {
			c.fail(protowire.ParseError(n))
			return
		}
		raw := c.in[c.tag : c.at+n]
		if keeps {
			*k.rest() = append(*k.rest(), raw...)
		} else {
			c.spill = append(c.spill, raw...)
		}
		c.took(n)
	}
	if c.err == nil {
		c.in, c.tag, c.at, c.num, c.typ, c.owner = in, tag, at, num, typ, owner
	}
}

type integer interface {
	~uint8 | ~uint32 | ~int32 | ~int64 | ~uint64
}

// number codes a varint. A value that does not fit the field's Go type is left
// for the unknown fields.
func number[T integer](c *coder, n protowire.Number, v *T) {
	if !c.decoding {
		if *v != 0 {
			c.out = protowire.AppendVarint(protowire.AppendTag(c.out, n, protowire.VarintType), uint64(*v))
		}
		return
	}
	if c.is(n, protowire.VarintType) {
		x, k := protowire.ConsumeVarint(c.left())
		if k >= 0 && uint64(T(x)) != x {
			return
		}
		*v = T(x)
		c.took(k)
	}
}

func (c *coder) flag(n protowire.Number, v *bool) {
	var x uint8
	if *v {
		x = 1
	}
	number(c, n, &x)
	*v = x != 0
}

func (c *coder) fixed64(n protowire.Number, v *uint64) {
	if !c.decoding {
		if *v != 0 {
			c.out = protowire.AppendFixed64(protowire.AppendTag(c.out, n, protowire.Fixed64Type), *v)
		}
		return
	}
	if c.is(n, protowire.Fixed64Type) {
		x, k := protowire.ConsumeFixed64(c.left())
		*v = x
		c.took(k)
	}
}

// text codes a string.
func (c *coder) text(n protowire.Number, v *string) {
	if !c.decoding {
		if *v != "" {
			c.out = protowire.AppendString(protowire.AppendTag(c.out, n, protowire.BytesType), *v)
		}
		return
	}
	if b, ok := c.bytesOf(n); ok {
		if !utf8.Valid(b) {
			c.fail(fmt.Errorf("field %d is not valid UTF-8", n))
			return
		}
		*v = string(b)
	}
}

// name codes a string that is the same in many messages.
func (c *coder) name(n protowire.Number, v *string) {
	if !c.decoding || c.intern == nil {
		c.text(n, v)
		return
	}
	if !c.is(n, protowire.BytesType) {
		return
	}
	if b, k := protowire.ConsumeBytes(c.left()); k >= 0 {
		if s, ok := c.intern[string(b)]; ok {
			*v = s
			c.took(k)
			return
		}
	}
	c.text(n, v)
	if c.err == nil && len(c.intern) < maxInterned {
		c.intern[*v] = *v
	}
}

const maxInterned = 4096

// sanitised codes a sanitised text. What is read is cleaned again: a log
// written by somebody else's sanitiser is not trusted.
func (c *coder) sanitised(n protowire.Number, v *sanitize.Text) {
	if !c.decoding {
		s := v.String()
		c.text(n, &s)
		return
	}
	if c.is(n, protowire.BytesType) {
		var s string
		c.text(n, &s)
		*v = sanitize.Clean(s)
	}
}

// bytesOf takes the next field if it is n; the bytes are the input's.
func (c *coder) bytesOf(n protowire.Number) ([]byte, bool) {
	if !c.is(n, protowire.BytesType) {
		return nil, false
	}
	b, k := protowire.ConsumeBytes(c.left())
	c.took(k)
	return b, k >= 0
}

func (c *coder) bytes(n protowire.Number, v *[]byte) {
	if !c.decoding {
		if len(*v) > 0 {
			c.out = protowire.AppendBytes(protowire.AppendTag(c.out, n, protowire.BytesType), *v)
		}
		return
	}
	if b, ok := c.bytesOf(n); ok {
		*v = append([]byte(nil), b...)
	}
}

// id codes 16 bytes. Bytes of another length are left for the unknown fields.
func id[T ~[16]byte](c *coder, n protowire.Number, v *T) {
	if !c.decoding {
		if *v != (T{}) {
			b := [16]byte(*v)
			c.out = protowire.AppendBytes(protowire.AppendTag(c.out, n, protowire.BytesType), b[:])
		}
		return
	}
	if c.is(n, protowire.BytesType) {
		if b, k := protowire.ConsumeBytes(c.left()); k < 0 || len(b) == 16 {
			if k >= 0 {
				*v = T(b)
			}
			c.took(k)
		}
	}
}

// open starts an embedded message and returns where it starts; close ends it.
func (c *coder) open(n protowire.Number) int {
	c.out = append(protowire.AppendTag(c.out, n, protowire.BytesType), 0)
	return len(c.out)
}

func (c *coder) close(start int) {
	size := len(c.out) - start
	if size < 0x80 {
		c.out[start-1] = byte(size)
		return
	}
	width := protowire.SizeVarint(uint64(size))
	c.out = append(c.out, make([]byte, width-1)...)
	copy(c.out[start+width-1:], c.out[start:start+size])
	binary.PutUvarint(c.out[start-1:], uint64(size))
}

func (c *coder) encode(n protowire.Number, m message) {
	start := c.open(n)
	c.body(m)
	c.close(start)
}

// body writes the fields of m, those that it does not know last.
func (c *coder) body(m message) {
	m.fields(c)
	if k, ok := m.(keeper); ok {
		c.out = append(c.out, *k.rest()...)
	}
}

// embedded codes a message held by value; the zero value is absent. Fields of
// it that this build does not know are kept by the owner, wrapped in another
// occurrence of field n, which protobuf merges with the first.
func embedded[T comparable, P interface {
	*T
	message
}](c *coder, n protowire.Number, v P) {
	if !c.decoding {
		var zero T
		if *v != zero {
			c.encode(n, v)
		}
		return
	}
	if b, ok := c.bytesOf(n); ok {
		c.decode(v, b)
		if len(c.spill) > 0 {
			rest := c.owner.rest()
			*rest = protowire.AppendBytes(protowire.AppendTag(*rest, n, protowire.BytesType), c.spill)
			c.spill = c.spill[:0]
		}
	}
}

// pointed codes a message held by pointer; nil is absent.
func pointed[T any, P interface {
	*T
	message
}](c *coder, n protowire.Number, v *P) {
	if !c.decoding {
		if *v != nil {
			c.encode(n, *v)
		}
		return
	}
	if b, ok := c.bytesOf(n); ok {
		if *v == nil {
			*v = new(T)
		}
		c.decode(*v, b)
	}
}

// repeated codes a list of messages.
func repeated[T any, P interface {
	*T
	message
}](c *coder, n protowire.Number, v *[]T) {
	bare[T, P](c, n, v, nil)
}

// bare codes a list of messages that keep no unknown fields themselves: those
// of the i-th are in the i-th element of rest, which may be shorter.
func bare[T any, P interface {
	*T
	message
}](c *coder, n protowire.Number, v *[]T, rest *[][]byte) {
	if !c.decoding {
		for i := range *v {
			start := c.open(n)
			c.body(P(&(*v)[i]))
			if rest != nil && i < len(*rest) {
				c.out = append(c.out, (*rest)[i]...)
			}
			c.close(start)
		}
		return
	}
	for c.is(n, protowire.BytesType) {
		b, _ := c.bytesOf(n)
		*v = append(*v, *new(T))
		c.decode(P(&(*v)[len(*v)-1]), b)
		if rest != nil && len(c.spill) > 0 {
			for len(*rest) < len(*v) {
				*rest = append(*rest, nil)
			}
			(*rest)[len(*v)-1] = append([]byte(nil), c.spill...)
			c.spill = c.spill[:0]
		}
	}
}

// list codes a packed list of varints; unpacked elements are read too. A list
// with a value that does not fit the elements' Go type is left for the unknown
// fields as a whole.
func list[T integer](c *coder, n protowire.Number, v *[]T) {
	if !c.decoding {
		if len(*v) > 0 {
			start := c.open(n)
			for _, x := range *v {
				c.out = protowire.AppendVarint(c.out, uint64(x))
			}
			c.close(start)
		}
		return
	}
	for c.is(n, protowire.VarintType) {
		x, k := protowire.ConsumeVarint(c.left())
		if k >= 0 && uint64(T(x)) != x {
			return
		}
		*v = append(*v, T(x))
		c.took(k)
	}
	if !c.is(n, protowire.BytesType) {
		return
	}
	packed, size := protowire.ConsumeBytes(c.left())
	count := 0
	for b, k := packed, 0; len(b) > 0; b = b[k:] {
		var x uint64
		count++
		if x, k = protowire.ConsumeVarint(b); k < 0 {
			c.fail(protowire.ParseError(k))
			return
		}
		if uint64(T(x)) != x {
			return
		}
	}
	*v = slices.Grow(*v, count)
	for b := packed; len(b) > 0; {
		x, k := protowire.ConsumeVarint(b)
		*v = append(*v, T(x))
		b = b[k:]
	}
	c.took(size)
}

// fixed codes a packed list of fixed-size numbers, of size 4 or 8.
func fixed[T uint32 | uint64](c *coder, n protowire.Number, v *[]T) {
	var t T
	size := binary.Size(t)
	if !c.decoding {
		if len(*v) > 0 {
			c.out = protowire.AppendTag(c.out, n, protowire.BytesType)
			c.out = protowire.AppendVarint(c.out, uint64(len(*v)*size))
			for _, x := range *v {
				if size == 4 {
					c.out = binary.LittleEndian.AppendUint32(c.out, uint32(x))
				} else {
					c.out = binary.LittleEndian.AppendUint64(c.out, uint64(x))
				}
			}
		}
		return
	}
	if b, ok := c.bytesOf(n); ok {
		if len(b)%size != 0 {
			c.fail(fmt.Errorf("field %d holds %d bytes, which is no multiple of %d", n, len(b), size))
			return
		}
		for ; len(b) > 0; b = b[size:] {
			if size == 4 {
				*v = append(*v, T(binary.LittleEndian.Uint32(b)))
			} else {
				*v = append(*v, T(binary.LittleEndian.Uint64(b)))
			}
		}
	}
}
