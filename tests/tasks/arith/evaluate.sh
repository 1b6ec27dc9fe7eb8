# Prints the evaluation of policy.txt as one JSON object. The score is 1000 at the optimum, 617, and falls by one with
# every step away from it; 300 or more above the score of the baseline, 383, is "fast".
answer() {
    printf '{"status": "%s", "score": %s, "message": "%s"}\n' "$1" "$2" "$3"
    exit 0
}
policy=$(head -c 64 policy.txt | tr -d ' \t\r\n')
case $policy in
    '' | *[!0-9]* | ??????????*) answer fail 0 'policy.txt must hold one whole number' ;;
esac
number=$(expr "$policy" + 0)
if [ "$number" -gt 999 ]; then
    answer compile 0 'the number must be from 0 to 999'
fi
distance=$((number - 617))
score=$((1000 - ${distance#-}))
if [ "$score" -ge 683 ]; then
    answer fast "$score" "score $score"
fi
answer pass "$score" "score $score"
