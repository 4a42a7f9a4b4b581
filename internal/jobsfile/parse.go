package jobsfile

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxBytes bounds the file.
const maxBytes = 4 << 20

type kind string

const (
	null    kind = "nothing"
	text    kind = "text"
	integer kind = "a whole number"
	float   kind = "a number"
	boolean kind = "true or false"
	list    kind = "a list"
	mapping kind = "a mapping"
)

// A value is a node of the file.
type value struct {
	kind kind
	pos  position
	// text is a scalar as it is written, for text with its variables replaced.
	text string
	// shown is what messages may say of a scalar: never a variable's value.
	shown  string
	fields []field
	items  []*value
}

type field struct {
	name  string
	pos   position
	value *value
}

// parse returns the tree of a file, nil when the report has the reason why
// there is none.
func parse(data []byte, lookup func(string) (string, bool), r *report) (root *value, secrets []string) {
	if len(data) > maxBytes {
		r.add("", "the file has %d bytes, more than %d", len(data), maxBytes)
		return nil, nil
	}
	file, err := parseYAML(data)
	if err != nil {
		pos := position{1, 1}
		msg := err.Error()
		if at, ok := errors.AsType[yaml.Error](err); ok {
			msg = at.GetMessage()
			if t := at.GetToken(); t != nil && t.Position != nil {
				pos = position{t.Position.Line, t.Position.Column}
			}
		}
		r.addAt(pos, "", "it is no valid YAML: %s", msg)
		return nil, nil
	}
	var docs []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType {
			docs = append(docs, d.Body)
		}
	}
	switch len(docs) {
	case 0:
		r.add("", "the file is empty")
		return nil, nil
	case 1:
	default:
		r.addAt(place(docs[1]), "", "the file has several documents, one is allowed")
	}
	b := builder{report: r, lookup: lookup, anchors: make(map[string]*value), seen: make(map[string]bool)}
	return b.build(docs[0], ""), b.secrets
}

// parseYAML turns a panic of the parser into an error.
func parseYAML(data []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser gave up: %v", p)
		}
	}()
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
}

func place(n ast.Node) position {
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 && !n.IsFlowStyle {
			return place(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return place(n.Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return position{t.Position.Line, t.Position.Column}
	}
	return position{1, 1}
}

// A builder makes values of nodes and replaces variables on the way.
type builder struct {
	*report
	lookup  func(string) (string, bool)
	anchors map[string]*value
	secrets []string
	seen    map[string]bool // the secrets
}

func (b *builder) build(n ast.Node, key string) *value {
	v := &value{kind: null, pos: place(n)}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		b.text(v, key, n.Value)
	case *ast.LiteralNode:
		b.text(v, key, n.Value.Value)
	case *ast.IntegerNode:
		v.kind, v.text, v.shown = integer, fmt.Sprint(n.Value), n.Token.Value
	case *ast.FloatNode:
		v.kind, v.text, v.shown = float, fmt.Sprint(n.Value), n.Token.Value
	case *ast.BoolNode:
		v.kind, v.text, v.shown = boolean, fmt.Sprint(n.Value), n.Token.Value
	case *ast.SequenceNode:
		v.kind = list
		for i, entry := range n.Values {
			v.items = append(v.items, b.build(entry, item(key, i)))
		}
	case *ast.MappingNode:
		v.kind = mapping
		for _, pair := range n.Values {
			b.pair(v, key, pair)
		}
	case *ast.MappingValueNode:
		v.kind = mapping
		b.pair(v, key, n)
	case *ast.AnchorNode:
		v = b.build(n.Value, key)
		b.anchors[n.Name.String()] = v
	case *ast.AliasNode:
		target, ok := b.anchors[n.Value.String()]
		if !ok {
			b.addAt(v.pos, key, "the anchor %q is not defined before it is used", n.Value.String())
			return v
		}
		return target
	default:
		b.addAt(v.pos, key, "a YAML %s is not supported here", n.Type())
	}
	return v
}

func (b *builder) pair(v *value, key string, pair *ast.MappingValueNode) {
	pos := place(pair.Key)
	if pair.Key.IsMergeKey() {
		b.addAt(pos, key, "merge keys (<<) are not supported; see defaults")
		return
	}
	name := ""
	switch k := pair.Key.(type) {
	case *ast.StringNode:
		name = k.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		name = k.GetToken().Value
	default:
		b.addAt(pos, key, "a key must be a plain text or number")
		return
	}
	path := join(key, name)
	for _, f := range v.fields {
		if f.name == name {
			b.addAt(pos, path, "the key is there twice, first in line %d", f.pos.line)
			delete(b.bad, path) // the first one is read
			return
		}
	}
	v.fields = append(v.fields, field{name, pos, b.build(pair.Value, path)})
}

func (b *builder) text(v *value, key, s string) {
	v.kind, v.shown = text, fmt.Sprintf("%q", s)
	v.text = b.interpolate(s, key, v.pos)
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

func item(key string, i int) string { return fmt.Sprintf("%s[%d]", key, i) }
