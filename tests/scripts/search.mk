# A search by make and xargs: a file for every setting, two processes, the best one trained.
# usage: make -f search.mk TRAIN=... TEST=...
SETTINGS = 0.25 1 4

result: model
	svm-predict -b 1 $(TEST) model out | sed -n 's/^Accuracy = \([0-9.]*\)%.*/\1/p' > accuracy
	echo "C=$$(cut -f 1 best) cv=$$(cut -f 2 best) test=$$(cat accuracy) rows=$$(wc -l < out)" > $@

best:
	printf '%s\n' $(SETTINGS) | xargs -P 2 -I C sh -c \
		'svm-train -s 0 -t 2 -c C -g 0.1 -v 3 -q $(TRAIN) > cv.C'
	for c in $(SETTINGS); do \
		printf '%s\t%s\n' $$c "$$(sed -n 's/^Cross Validation Accuracy = \(.*\)%/\1/p' cv.$$c)"; \
	done | sort -k 2,2gr -k 1,1g | head -n 1 > $@

model: best
	svm-train -s 0 -t 2 -c $$(cut -f 1 best) -g 0.1 -b 1 -q $(TRAIN) $@
