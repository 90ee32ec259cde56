package document

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// A Judgement is why a value is refused. An empty message means that it was reported
// already.
type Judgement struct{ Message, Hint string }

// Err returns the judgement as an error.
func (j *Judgement) Err() error {
	if j.Hint == "" {
		return errors.New(j.Message)
	}
	return fmt.Errorf("%s (%s)", j.Message, j.Hint)
}

// Refused returns a judgement without a hint.
func Refused(format string, args ...any) *Judgement {
	return &Judgement{Message: fmt.Sprintf(format, args...)}
}

// WrongKind returns the judgement of a value that is not of the wanted kind.
func WrongKind(want string, v *Value) *Judgement {
	j := Refused("want %s, got %s", want, got(v))
	if v.Kind == Boolean || v.Kind == Number {
		if want == "text" {
			j.Hint = "put it in quotes"
		}
	}
	return j
}

// got names a value in an error: short scalars are quoted.
func got(v *Value) string {
	switch v.Kind {
	case Boolean, Number:
		return string(v.Kind) + " " + Shorten(v.Text)
	case Text:
		return fmt.Sprintf("text %q", Shorten(v.Text))
	}
	return string(v.Kind)
}

// Shorten cuts text that is quoted in an error.
func Shorten(s string) string {
	const limit = 60
	if len(s) <= limit {
		return s
	}
	cut := limit
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

func judgeText(v *Value, s *Shape) (any, *Judgement) {
	if v.Kind != Text {
		j := WrongKind("text", v)
		if len(s.Words) > 0 {
			j.Hint = "it is one of " + strings.Join(s.Words, ", ")
		}
		return nil, j
	}
	return CheckText(v.Text, s)
}

func judgeScalar(v *Value, s *Shape) (any, *Judgement) {
	if v.Kind == List || v.Kind == Object {
		return nil, WrongKind("text", v)
	}
	return CheckText(v.Text, s)
}

// CheckText checks text against the words, the length and the pattern of a shape.
func CheckText(text string, s *Shape) (any, *Judgement) {
	if len(s.Words) > 0 {
		for _, w := range s.Words {
			if text == w {
				return text, nil
			}
		}
		return nil, &Judgement{fmt.Sprintf("%q is not one of %s", Shorten(text), strings.Join(s.Words, ", ")), DidYouMean(text, s.Words)}
	}
	if strings.ContainsRune(text, 0) {
		return nil, Refused("the text holds a zero byte")
	}
	if len(text) < s.Min {
		return nil, Refused("the text is empty")
	}
	if s.Max > 0 && len(text) > s.Max {
		return nil, Refused("the text is %d bytes long; at most %d are allowed", len(text), s.Max)
	}
	if s.Pattern != nil && !s.Pattern.MatchString(text) {
		return nil, s.mismatch(text)
	}
	return text, nil
}

// mismatch returns the judgement of text that does not match, with a suggestion that
// does.
func (s *Shape) mismatch(text string) *Judgement {
	j := Refused("%q is not %s", Shorten(text), s.PatternDoc)
	lower := strings.ToLower(text)
	for _, better := range []string{lower, strings.ReplaceAll(lower, "-", "_")} {
		if better != text && s.Pattern.MatchString(better) && strings.Contains(s.PatternDoc, "a-z") {
			j.Hint = fmt.Sprintf("write %q", better)
			break
		}
	}
	return j
}

func judgeInteger(v *Value, s *Shape) (any, *Judgement) {
	if v.Kind != Number {
		return nil, WrongKind("a whole number", v)
	}
	n, err := ParseNumber(v.Text)
	if err != nil {
		return nil, Refused("%s %v", Shorten(v.Text), err)
	}
	i, whole := n.(int)
	if !whole {
		return nil, WrongKind("a whole number", v)
	}
	if i < s.Min || i > s.Max {
		return nil, Refused("%d is out of range: %d to %d are allowed", i, s.Min, s.Max)
	}
	return i, nil
}

func judgeBoolean(v *Value) (any, *Judgement) {
	if v.Kind != Boolean {
		j := WrongKind("true or false", v)
		switch strings.ToLower(v.Text) {
		case "yes", "on", "y":
			j.Hint = "write true"
		case "no", "off", "n":
			j.Hint = "write false"
		}
		return nil, j
	}
	return strings.EqualFold(v.Text, "true"), nil
}

// JudgeDuration returns a duration as Go writes it.
func JudgeDuration(v *Value, s *Shape) (any, *Judgement) {
	const form = "write durations as 500ms, 90s, 10m or 1h30m"
	if v.Kind == Number {
		return nil, &Judgement{fmt.Sprintf("the duration %s has no unit", Shorten(v.Text)), form}
	}
	if v.Kind != Text {
		return nil, WrongKind("a duration", v)
	}
	d, err := time.ParseDuration(v.Text)
	if err != nil {
		return nil, &Judgement{fmt.Sprintf("%q is not a duration", Shorten(v.Text)), form}
	}
	if d < s.Least || d > s.Most {
		return nil, Refused("%s is out of range: %s to %s are allowed", d, s.Least, s.Most)
	}
	return d.String(), nil
}
