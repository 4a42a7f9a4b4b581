package events

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// The tests of this file hold the hand-written codec against events.proto, read
// by an independent implementation of protobuf.

func schema(t testing.TB) protoreflect.FileDescriptor {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{}}
	files, err := compiler.Compile(context.Background(), "events.proto")
	if err != nil {
		t.Fatalf("compiling the schema: %v", err)
	}
	return files[0]
}

// structs is the Go type of every message of the schema.
var structs = map[protoreflect.Name]reflect.Type{
	"Event": reflect.TypeFor[Event](), "Publication": reflect.TypeFor[Publication](), "Source": reflect.TypeFor[Source](), "Error": reflect.TypeFor[Error](),
	"AttemptStarted": reflect.TypeFor[AttemptStarted](), "AttemptFinished": reflect.TypeFor[AttemptFinished](), "Next": reflect.TypeFor[Next](),
	"AttemptAbandoned": reflect.TypeFor[AttemptAbandoned](), "StepCompleted": reflect.TypeFor[StepCompleted](), "JobDeferred": reflect.TypeFor[JobDeferred](),
	"JobParked": reflect.TypeFor[JobParked](), "JobResolved": reflect.TypeFor[JobResolved](), "JobTerminal": reflect.TypeFor[JobTerminal](),
	"JobRedriven": reflect.TypeFor[JobRedriven](), "DuplicateSeen": reflect.TypeFor[DuplicateSeen](), "TransitionRejected": reflect.TypeFor[TransitionRejected](),
	"Checkpoint": reflect.TypeFor[Checkpoint](), "OpenEntry": reflect.TypeFor[OpenEntry](), "OffsetRange": reflect.TypeFor[OffsetRange](),
	"Mark": reflect.TypeFor[Mark](), "DedupPage": reflect.TypeFor[DedupPage](), "GroupEvent": reflect.TypeFor[GroupEvent](),
	"GroupField": reflect.TypeFor[GroupField](), "HopState": reflect.TypeFor[HopState](),
}

var (
	textType = reflect.TypeFor[sanitize.Text]()
	bodyType = reflect.TypeFor[Body]()
)

// snake returns the schema's name of a Go field.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// goFields returns the fields of a Go struct by the schema's names, without
// those that hold unknown fields and without the event's body.
func goFields(t reflect.Type) map[string]int {
	m := make(map[string]int)
	for i := range t.NumField() {
		f := t.Field(i)
		if f.IsExported() && f.Name != "Unknown" && f.Type != bodyType {
			m[snake(f.Name)] = i
		}
	}
	return m
}

func TestSchemaAndStructsHaveTheSameFields(t *testing.T) {
	messages := schema(t).Messages()
	for i := range messages.Len() {
		md := messages.Get(i)
		typ, ok := structs[md.Name()]
		if !ok {
			t.Errorf("message %s has no Go type", md.Name())
			continue
		}
		fields := goFields(typ)
		for k := range md.Fields().Len() {
			fd := md.Fields().Get(k)
			if fd.ContainingOneof() != nil {
				continue
			}
			if _, ok := fields[string(fd.Name())]; !ok {
				t.Errorf("%s has no field for %s", typ, fd.Name())
			}
			delete(fields, string(fd.Name()))
		}
		for name := range fields {
			t.Errorf("%s has a field %s that is not in the schema", typ, name)
		}
	}
	if len(structs) != messages.Len() {
		t.Errorf("there are %d Go types for %d messages", len(structs), messages.Len())
	}
}

func TestSchemaAndTypesHaveTheSameBodies(t *testing.T) {
	oneof := schema(t).Messages().ByName("Event").Oneofs().ByName("body").Fields()
	for i := range oneof.Len() {
		fd := oneof.Get(i)
		typ := Type(fd.Number() - 32)
		body := newBody(typ)
		switch {
		case body == nil:
			t.Errorf("%s has no body", fd.Name())
		case body.Type() != typ || typ.String() != string(fd.Name()) || reflect.TypeOf(body).Elem() != structs[fd.Message().Name()]:
			t.Errorf("%s is %v, a %T", fd.Name(), body.Type(), body)
		}
	}
	for n := range math.MaxUint8 + 1 {
		if newBody(Type(n)) != nil && oneof.ByNumber(protowire.Number(n+32)) == nil {
			t.Errorf("type %d is not in the schema", n)
		}
	}
	if TypeUnknown.String() != "unknown" {
		t.Error("the zero type has another name")
	}
}

// TestSchemaAndEnumsHaveTheSameValues holds every name and number of enums.go
// against the schema.
func TestSchemaAndEnumsHaveTheSameValues(t *testing.T) {
	enums := map[protoreflect.Name]func(uint8) string{
		"State":           func(n uint8) string { return State(n).String() },
		"StartCause":      func(n uint8) string { return StartCause(n).String() },
		"AttemptOutcome":  func(n uint8) string { return Outcome(n).String() },
		"ErrorClass":      func(n uint8) string { return ErrorClass(n).String() },
		"AbandonCause":    func(n uint8) string { return AbandonCause(n).String() },
		"DeferReason":     func(n uint8) string { return DeferReason(n).String() },
		"ParkReason":      func(n uint8) string { return ParkReason(n).String() },
		"ResolveVerb":     func(n uint8) string { return ResolveVerb(n).String() },
		"TerminalOutcome": func(n uint8) string { return TerminalOutcome(n).String() },
		"TerminalReason":  func(n uint8) string { return TerminalReason(n).String() },
		"DuplicateAction": func(n uint8) string { return DuplicateAction(n).String() },
	}
	all := schema(t).Enums()
	for i := range all.Len() {
		ed := all.Get(i)
		name := enums[ed.Name()]
		if name == nil {
			t.Errorf("enum %s has no Go type", ed.Name())
			continue
		}
		delete(enums, ed.Name())
		prefix := strings.ToUpper(snake(string(ed.Name()))) + "_"
		for n := range math.MaxUint8 + 1 {
			want := strconv.Itoa(n)
			if v := ed.Values().ByNumber(protoreflect.EnumNumber(n)); v != nil {
				want = strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))
			}
			if n == 0 {
				want = map[bool]string{true: "none"}[ed.Name() == "State"]
			}
			if got := name(uint8(n)); got != want {
				t.Errorf("%s %d is %q, in the schema %q", ed.Name(), n, got, want)
			}
		}
		for k := range ed.Values().Len() {
			if n := ed.Values().Get(k).Number(); n < 0 || n > math.MaxUint8 {
				t.Errorf("%s %d does not fit the Go type", ed.Name(), n)
			}
		}
	}
	for name := range enums {
		t.Errorf("enum %s is not in the schema", name)
	}
}

// diff holds a Go struct against a message of the other implementation, field by
// field, and returns the first difference.
func diff(path string, v reflect.Value, m protoreflect.Message) string {
	fields := goFields(v.Type())
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		at := path + "." + string(fd.Name())
		if fd.ContainingOneof() != nil {
			body, _ := reflect.TypeAssert[Body](v.FieldByName("Body"))
			if has := body != nil && body.Type() == Type(fd.Number()-32); has != m.Has(fd) {
				return fmt.Sprintf("%s: there is %v, and %v", at, body, m.Has(fd))
			} else if has {
				if d := diff(at, reflect.ValueOf(body).Elem(), m.Get(fd).Message()); d != "" {
					return d
				}
			}
			continue
		}
		f := v.Field(fields[string(fd.Name())])
		if fd.IsList() {
			list := m.Get(fd).List()
			if f.Len() != list.Len() {
				return fmt.Sprintf("%s: %d elements and %d", at, f.Len(), list.Len())
			}
			for k := range f.Len() {
				if d := diffValue(fmt.Sprintf("%s[%d]", at, k), fd, f.Index(k), list.Get(k)); d != "" {
					return d
				}
			}
			continue
		}
		if d := diffValue(at, fd, f, m.Get(fd)); d != "" {
			return d
		}
	}
	return ""
}

func diffValue(at string, fd protoreflect.FieldDescriptor, f reflect.Value, v protoreflect.Value) string {
	got := f.Interface()
	var want any
	switch fd.Kind() {
	case protoreflect.MessageKind:
		if f.Kind() == reflect.Pointer {
			if f.IsNil() {
				if v.Message().IsValid() {
					return at + ": absent, and present"
				}
				return ""
			}
			f = f.Elem()
		}
		return diff(at, f, v.Message())
	case protoreflect.EnumKind:
		got, want = f.Uint(), uint64(v.Enum())
	case protoreflect.BoolKind:
		got, want = f.Bool(), v.Bool()
	case protoreflect.StringKind:
		got, want = fmt.Sprint(got), v.String()
	case protoreflect.BytesKind:
		var b []byte
		if f.Kind() == reflect.Array {
			if !f.IsZero() {
				for i := range f.Len() {
					b = append(b, byte(f.Index(i).Uint()))
				}
			}
		} else {
			b = f.Bytes()
		}
		got, want = string(b), string(v.Bytes())
	default:
		if f.CanInt() {
			got, want = f.Int(), v.Int()
		} else {
			got, want = f.Uint(), v.Uint()
		}
	}
	if got != want {
		return fmt.Sprintf("%s: %v and %v", at, got, want)
	}
	return ""
}

// isID reports whether a field of type bytes holds a UUID or trace id.
func isID(fd protoreflect.FieldDescriptor) bool {
	return fd.Kind() == protoreflect.BytesKind && fd.Name() != "value_sha256" && fd.Name() != "step_output"
}

// drawMessage fills a message of the other implementation with random values.
// A foreign one also has what this build does not know: unknown fields
// everywhere, and values that do not fit.
func drawMessage(t *rapid.T, m protoreflect.Message, foreign bool) {
	md := m.Descriptor()
	var bodies []protoreflect.FieldDescriptor
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		switch {
		case fd.ContainingOneof() != nil:
			bodies = append(bodies, fd)
		case fd.IsList():
			list := m.Mutable(fd).List()
			for range rapid.IntRange(0, 3).Draw(t, "n") {
				if fd.Kind() == protoreflect.MessageKind {
					drawMessage(t, list.AppendMutable().Message(), foreign)
				} else {
					list.Append(drawValue(t, fd, foreign))
				}
			}
		case !rapid.Bool().Draw(t, string(fd.Name())):
		case fd.Kind() == protoreflect.MessageKind:
			drawMessage(t, m.Mutable(fd).Message(), foreign)
		default:
			m.Set(fd, drawValue(t, fd, foreign))
		}
	}
	if bodies != nil && (!foreign || rapid.IntRange(0, 9).Draw(t, "body") > 0) {
		fd := rapid.SampledFrom(bodies).Draw(t, "body")
		drawMessage(t, m.Mutable(fd).Message(), foreign)
	}
	if foreign {
		var raw []byte
		for range rapid.IntRange(0, 2).Draw(t, "unknown") {
			n := protowire.Number(rapid.IntRange(47, 3000).Draw(t, "number"))
			switch rapid.IntRange(0, 2).Draw(t, "type") {
			case 0:
				raw = protowire.AppendVarint(protowire.AppendTag(raw, n, protowire.VarintType), rapid.Uint64().Draw(t, "value"))
			case 1:
				raw = protowire.AppendFixed32(protowire.AppendTag(raw, n, protowire.Fixed32Type), rapid.Uint32().Draw(t, "value"))
			case 2:
				raw = protowire.AppendBytes(protowire.AppendTag(raw, n, protowire.BytesType), rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "value"))
			}
		}
		m.SetUnknown(raw)
	}
}

func drawValue(t *rapid.T, fd protoreflect.FieldDescriptor, foreign bool) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "v"))
	case protoreflect.EnumKind:
		most := int32(math.MaxUint8)
		if foreign && rapid.IntRange(0, 9).Draw(t, "large") == 0 {
			most = math.MaxInt32
		}
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.Int32Range(0, most).Draw(t, "v")))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "v"))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "v"))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, "v"))
	case protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "v"))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.StringMatching(`[a-zä]{0,12}|[a-z]{140}`).Draw(t, "v"))
	case protoreflect.BytesKind:
		if isID(fd) && (!foreign || rapid.IntRange(0, 9).Draw(t, "length") > 0) {
			b := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "v")
			b[0] |= 1
			return protoreflect.ValueOfBytes(b)
		}
		return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "v"))
	}
	panic("no values for " + fd.Kind().String())
}

// prune drops embedded messages that are present and empty: held by value in
// Go, they are the same as absent ones. Bodies and the one message held by
// pointer stay.
func prune(m protoreflect.Message) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Kind() != protoreflect.MessageKind:
		case fd.IsList():
			for i := range v.List().Len() {
				prune(v.List().Get(i).Message())
			}
		default:
			prune(v.Message())
			if fd.ContainingOneof() == nil && fd.Name() != "late" && proto.Size(v.Message().Interface()) == 0 {
				m.Clear(fd)
			}
		}
		return true
	})
}

// codec is one of the two messages that stand alone.
type codec struct {
	name   protoreflect.Name
	decode func([]byte) (any, error)
	encode func(any) []byte
}

var codecs = []codec{
	{"Event", func(b []byte) (any, error) { return Decode(b) }, func(v any) []byte { return Append(nil, v.(*Event)) }},
	{"HopState", func(b []byte) (any, error) { h := new(HopState); return h, h.Decode(b) }, func(v any) []byte { return v.(*HopState).Append(nil) }},
}

// TestMessagesOfAnotherImplementationAreRead decodes random messages of the
// schema: every field arrives, none as unknown, and they are written again as
// they were.
func TestMessagesOfAnotherImplementationAreRead(t *testing.T) {
	file := schema(t)
	for _, c := range codecs {
		t.Run(string(c.name), rapid.MakeCheck(func(t *rapid.T) {
			m := dynamicpb.NewMessage(file.Messages().ByName(c.name))
			drawMessage(t, m, false)
			prune(m)
			v := roundTrip(t, c, m)
			if d := diff(string(c.name), reflect.ValueOf(v).Elem(), m); d != "" {
				t.Fatal(d)
			}
			if n := unknowns(reflect.ValueOf(v)); n > 0 {
				t.Fatalf("%d bytes are unknown", n)
			}
		}))
	}
}

// TestWhatIsUnknownIsKept decodes random messages with fields and values of a
// later schema at every level: all of it is written again.
func TestWhatIsUnknownIsKept(t *testing.T) {
	file := schema(t)
	for _, c := range codecs {
		t.Run(string(c.name), rapid.MakeCheck(func(t *rapid.T) {
			m := dynamicpb.NewMessage(file.Messages().ByName(c.name))
			drawMessage(t, m, true)
			prune(m)
			roundTrip(t, c, m)
		}))
	}
}

func roundTrip(t *rapid.T, c codec, m *dynamicpb.Message) any {
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.decode(raw)
	if err != nil {
		t.Fatalf("decoding: %v", err)
	}
	again := dynamicpb.NewMessage(m.Descriptor())
	if err := proto.Unmarshal(c.encode(v), again); err != nil {
		t.Fatalf("the other implementation refuses what is written again: %v", err)
	}
	prune(again)
	if !proto.Equal(m, again) {
		t.Fatalf("changed:\n%v\n%v", m, again)
	}
	return v
}

// unknowns counts the bytes of unknown fields anywhere in v.
func unknowns(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n = unknowns(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; {
			case name == "unknown" || name == "Unknown" || strings.HasSuffix(name, "Rest"):
				n += v.Field(i).Len()
			default:
				n += unknowns(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			n += unknowns(v.Index(i))
		}
	}
	return n
}

// TestAnotherImplementationReadsWhatIsWritten encodes random Go values: the
// other implementation finds each field where the schema has it, and nothing
// else; and decoding gives the value back.
func TestAnotherImplementationReadsWhatIsWritten(t *testing.T) {
	file := schema(t)
	for _, c := range codecs {
		t.Run(string(c.name), rapid.MakeCheck(func(t *rapid.T) {
			v := reflect.New(structs[c.name])
			drawStruct(t, v.Elem())
			raw := c.encode(v.Interface())
			m := dynamicpb.NewMessage(file.Messages().ByName(c.name))
			if err := proto.Unmarshal(raw, m); err != nil {
				t.Fatalf("the other implementation refuses it: %v", err)
			}
			if d := diff(string(c.name), v.Elem(), m); d != "" {
				t.Fatal(d)
			}
			if at := hasUnknown(m); at != "" {
				t.Fatalf("the schema does not know a field of %s", at)
			}
			again, err := c.decode(raw)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(again, v.Interface()) {
				t.Fatalf("changed:\n%+v\n%+v", v.Interface(), again)
			}
		}))
	}
}

func hasUnknown(m protoreflect.Message) (at string) {
	if len(m.GetUnknown()) > 0 {
		return string(m.Descriptor().Name())
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Kind() != protoreflect.MessageKind:
		case fd.IsList():
			for i := range v.List().Len() {
				at += hasUnknown(v.List().Get(i).Message())
			}
		default:
			at += hasUnknown(v.Message())
		}
		return at == ""
	})
	return at
}

// drawStruct fills the exported fields of a Go struct with random values.
func drawStruct(t *rapid.T, v reflect.Value) {
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		switch {
		case !v.Type().Field(i).IsExported() || name == "Unknown":
		case f.Type() == bodyType:
			body := newBody(Type(rapid.IntRange(1, int(TypeDedupPage)).Draw(t, "type")))
			drawStruct(t, reflect.ValueOf(body).Elem())
			f.Set(reflect.ValueOf(body))
		default:
			drawField(t, f, name)
		}
	}
}

func drawField(t *rapid.T, f reflect.Value, name string) {
	switch {
	case f.Type() == textType:
		f.Set(reflect.ValueOf(sanitize.Clean(rapid.StringMatching(`[a-z]{0,20}`).Draw(t, name))))
	case f.Kind() == reflect.Struct:
		if rapid.Bool().Draw(t, name) {
			drawStruct(t, f)
		}
	case f.Kind() == reflect.Pointer:
		if rapid.Bool().Draw(t, name) {
			f.Set(reflect.New(f.Type().Elem()))
			drawStruct(t, f.Elem())
		}
	case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Uint8 && f.Type() == reflect.TypeFor[[]byte]():
		if b := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, name); len(b) > 0 {
			f.SetBytes(b)
		}
	case f.Kind() == reflect.Slice:
		for range rapid.IntRange(0, 3).Draw(t, name) {
			e := reflect.New(f.Type().Elem()).Elem()
			drawField(t, e, name)
			f.Set(reflect.Append(f, e))
		}
	case f.Kind() == reflect.Array:
		reflect.Copy(f, reflect.ValueOf(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, name)))
	case f.Kind() == reflect.String:
		f.SetString(rapid.StringN(0, 30, 140).Draw(t, name))
	case f.Kind() == reflect.Bool:
		f.SetBool(rapid.Bool().Draw(t, name))
	case f.CanInt():
		f.SetInt(rapid.Int64().Draw(t, name))
	default:
		f.SetUint(rapid.Uint64().Draw(t, name))
	}
}

// TestGoldenEventsSetEveryField keeps the golden events worth their name.
func TestGoldenEventsSetEveryField(t *testing.T) {
	var walk func(at string, v reflect.Value)
	walk = func(at string, v reflect.Value) {
		fields := goFields(v.Type())
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			f := v.Field(fields[name])
			if f.IsZero() && at+"."+name != "dedup_page.topics.offset" { // entries have offsets of their own
				t.Errorf("%s.%s is not set", at, name)
			}
			for f.Kind() == reflect.Pointer {
				f = f.Elem()
			}
			if f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct {
				f = f.Index(0)
			}
			if f.Kind() == reflect.Struct && f.Type() != textType {
				walk(at+"."+name, f)
			}
		}
	}
	for _, b := range bodies() {
		walk(b.Type().String(), reflect.ValueOf(b).Elem())
		walk("event", reflect.ValueOf(eventWith(b)).Elem())
	}
}
