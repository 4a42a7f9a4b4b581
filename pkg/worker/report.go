package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

const (
	// reportEvery is how often one kind of end of one job type is logged.
	reportEvery = time.Minute
	// maxReported is how many kinds are unsaid apart: a job type that nobody
	// configured may be any text.
	maxReported = 500
)

// report logs how jobs end that do not just succeed: each job type and reason at
// once, and then at most once a minute with the count since the line before. It
// is owned by the tick goroutine.
type report struct {
	log   *slog.Logger
	clean *sanitize.Sanitizer
	ends  map[kindOfEnd]*unsaid
}

// kindOfEnd is what is counted together.
type kindOfEnd struct {
	level   slog.Level
	message string
	typ     string
	reason  string
}

// unsaid is what of a kind of end was not logged yet.
type unsaid struct {
	last  time.Time
	count int
	attrs []slog.Attr // of the latest one
}

func newReport(log *slog.Logger, clean *sanitize.Sanitizer) *report {
	return &report{log: log, clean: clean, ends: make(map[kindOfEnd]*unsaid)}
}

// note counts what a committed batch says. It copies what it keeps.
func (r *report) note(said []*events.Event) {
	var failure *events.Event // the attempt's end before a terminal or a parking
	for _, e := range said {
		switch b := e.Body.(type) {
		case *events.AttemptFinished:
			failure = e
		case *events.AttemptAbandoned:
			r.add(e, slog.LevelWarn, "an attempt was found without an outcome", b.Cause.String(), "", sanitize.Text{})
		case *events.JobTerminal:
			class, text := lastError(failure, e, b.Detail)
			switch b.Outcome {
			case events.TerminalSucceeded:
			case events.TerminalFailed:
				r.add(e, slog.LevelWarn, "a job failed for good and went to the dead-letter topic", b.Reason.String(), class, text)
			default:
				r.add(e, slog.LevelInfo, "a job ended without success", b.Outcome.String(), class, text)
			}
		case *events.JobParked:
			class, text := lastError(failure, e, sanitize.Text{})
			r.add(e, slog.LevelWarn, "a job was parked: it waits for a decision", b.Reason.String(), class, text)
		case *events.DuplicateSeen:
			r.add(e, slog.LevelInfo, "a job was published again", b.Action.String(), "", sanitize.Text{})
		case *events.TransitionRejected:
			r.add(e, slog.LevelWarn, "what was to be recorded is not allowed where the job stands", b.What, "", b.Detail)
		}
	}
}

// lastError returns the error of the attempt after whose end e was written, where
// the same unit wrote both; else the text given.
func lastError(failure, e *events.Event, without sanitize.Text) (class string, text sanitize.Text) {
	if failure == nil || failure.Publication != e.Publication || failure.Run != e.Run {
		return "", without
	}
	of := failure.Body.(*events.AttemptFinished).Error
	return of.Class.String(), of.Message
}

// unknownHint goes with jobs of unknown types, the commonest mistake of a group
// whose members differ.
const unknownHint = "all workers of a group must run the same types, or say unknown_types: skip"

func (r *report) add(e *events.Event, level slog.Level, message, reason, class string, text sanitize.Text) {
	k := kindOfEnd{level, message, e.JobType, reason}
	t := r.ends[k]
	if t == nil {
		if len(r.ends) >= maxReported {
			k.typ = "others"
			t = r.ends[k]
		}
		if t == nil {
			t = new(unsaid)
			r.ends[k] = t
		}
	}
	t.count++
	t.attrs = append(t.attrs[:0], slog.String("publication", e.Publication.String()))
	if class != "" {
		t.attrs = append(t.attrs, slog.String("error_class", class))
	}
	if s := text.String(); s != "" {
		t.attrs = append(t.attrs, slog.String("err", s))
	}
	if reason == events.ReasonUnknownType.String() {
		t.attrs = append(t.attrs, slog.String("hint", unknownHint))
	}
}

// flush logs what is due at now, or everything.
func (r *report) flush(now time.Time, everything bool) {
	for k, t := range r.ends {
		switch {
		case t.count == 0 && now.Sub(t.last) > reportEvery:
			delete(r.ends, k)
		case t.count > 0 && (everything || now.Sub(t.last) >= reportEvery):
			attrs := append([]slog.Attr{slog.String("job_type", r.clean.Clean(k.typ).String()), slog.String("reason", k.reason), slog.Int("count", t.count)}, t.attrs...)
			r.log.LogAttrs(context.Background(), k.level, k.message, attrs...)
			t.last, t.count = now, 0
		}
	}
}
