package workflow_test
import ("testing";"strings";"fmt";"time";"github.com/pawl-dev/pawl/workflow")
func TestPerf(t *testing.T){
 for name,src:=range map[string]string{
  "comments": strings.Repeat("# x\n",250000),
  "onecomment": "#"+strings.Repeat("x",1000000),
  "longplain": "name: "+strings.Repeat("x ",500000),
  "quoted": "name: \""+strings.Repeat("x\\n",300000)+"\"",
  "single": "name: '"+strings.Repeat("''",500000)+"'",
  "block": "name: |\n"+strings.Repeat("  x\n",250000),
  "folded": "name: >\n"+strings.Repeat("  x\n\n",200000),
  "multiplain": "name: x\n"+strings.Repeat("  x\n",250000),
  "keys": strings.Repeat("a: 1\n",200000),
  "flow": "steps: ["+strings.Repeat("a,",500000)+"]",
  "flowmaps": "steps: ["+strings.Repeat("{a: b},",140000)+"]",
  "seq": "steps:\n"+strings.Repeat("- a\n",250000),
  "indent": func() string{ var b strings.Builder; for i:=0;i<1400;i++{ b.WriteString(strings.Repeat(" ",i)+"a:\n")}; return b.String()}(),
  "docs": strings.Repeat("---\n",250000),
  "exprs": func() string{ var b strings.Builder; b.WriteString("name: x\nsteps: []\noutput:\n"); for i:=0;i<30000;i++{ fmt.Fprintf(&b,"  - ${{ foo%d }}\n",i)}; return b.String()}(),
  "goodexprs": func() string{ var b strings.Builder; b.WriteString("name: x\nsteps: []\noutput:\n"); for i:=0;i<30000;i++{ fmt.Fprintf(&b,"  - ${{ %d + job.id }}\n",i)}; return b.String()}(),
  "needs": func() string{ var b strings.Builder; b.WriteString("name: x\nsteps:\n"); for i:=0;i<1000;i++{ fmt.Fprintf(&b,"  - {id: s%d, command: [x], needs: [",i); for j:=max(0,i-150);j<i;j++{fmt.Fprintf(&b,"s%d,",j)}; b.WriteString("]}\n")}; return b.String()}(),
  "badneeds": func() string{ var b strings.Builder; b.WriteString("name: x\nsteps:\n"); for i:=0;i<1000;i++{ fmt.Fprintf(&b,"  - {id: sabcdefgh%d, command: [x], needs: [",i); for j:=0;j<60;j++{fmt.Fprintf(&b,"tabcdefgh%d,",j)}; b.WriteString("]}\n")}; return b.String()}(),
  "blanks": strings.Repeat("\n",1000000), "spaces": strings.Repeat(" ",1000000), "openbraces": "a: "+strings.Repeat("}",900000), "colons": strings.Repeat(":",1000000), "quotes": strings.Repeat("\"",1000000),"pipes": strings.Repeat("|",1000000),"brackets": strings.Repeat("[]",500000),
 }{
  if len(src)>1<<20 { src=src[:1<<20] }
  s:=time.Now(); _,err:=workflow.Parse("x",[]byte(src)); d:=time.Since(s)
  if d>300*time.Millisecond { msg:=""; if err!=nil{msg=fmt.Sprintf("%.80v",err)}; fmt.Println(name,len(src),d,msg) }
 }
}
