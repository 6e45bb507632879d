# Used by compile.sh: SOURCE is a folder of C units, OUT an empty folder.
UNITS := $(wildcard $(SOURCE)/*.c)
OBJECTS := $(patsubst $(SOURCE)/%.c,$(OUT)/%.o,$(UNITS))

$(OUT)/core.a: $(OBJECTS)
	ar rcs $@ $^
	@echo "compiled $(words $(OBJECTS)) units"

$(OUT)/%.o: $(SOURCE)/%.c
	gcc -std=gnu11 -O2 -Wall -I$(SOURCE) -c $< -o $@
