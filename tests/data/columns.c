/* data/columns: which columns of a file are text, pair and label, by headers as people write them. */
#include "data/files/columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The names between commas. */
static struct columns header(const char *names)
{
    struct columns c = {0};
    char copy[512];
    struct snug_err e;
    snprintf(copy, sizeof copy, "%s", names);
    for (char *name = copy, *next; name; name = next) {
        if ((next = strchr(name, ',')))
            *next++ = 0;
        assert_int_equal(columns_add(&c, "f.csv", name, &e), 0);
    }
    return c;
}

static const char *name_of(const struct columns *c, int column)
{
    return column < 0 ? "-" : c->names[column];
}

static void usual_names_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *header, *text, *pair, *label;
        bool guessed;
    } cases[] = {
        {"text,label", "text", "-", "label", false},
        {"label,text,text_pair", "text", "text_pair", "label", false},
        {"id,text,labels", "text", "-", "labels", false},
        {"text,category", "text", "-", "category", true},                           /* BANKING77 */
        {"sentence1,sentence2,label,idx", "sentence1", "sentence2", "label", true}, /* GLUE: mrpc, rte */
        {"premise,hypothesis,label,idx", "premise", "hypothesis", "label", true},   /* mnli */
        {"question1,question2,label,idx", "question1", "question2", "label", true}, /* qqp */
        {"question,sentence,label,idx", "question", "sentence", "label", true},     /* qnli */
        {"sentence,label,idx", "sentence", "-", "label", true},                     /* sst2, cola */
        {"question,passage,label", "question", "passage", "label", true},           /* boolq */
        {"label,title,content", "content", "-", "label", true},                     /* dbpedia_14, amazon_polarity */
        {"review,sentiment", "review", "-", "sentiment", true},                     /* IMDB on Kaggle */
        {"Class Index,Title,Description", "Title", "Description", "Class Index", true},    /* AG news on Kaggle */
        {"id,keyword,location,text,target", "text", "-", "target", true},                  /* disaster tweets */
        {"id,comment_text,toxic,severe_toxic", "comment_text", "-", "-", true},            /* toxic comments */
        {",Clothing ID,Age,Title,Review Text,Rating", "Review Text", "-", "Rating", true}, /* women's clothing */
        {"Unnamed: 0,UserName,OriginalTweet,Sentiment", "-", "-", "Sentiment", true},
        {"Tweet,Sentiment", "Tweet", "-", "Sentiment", true},
        {"Message,Category", "Message", "-", "Category", true}, /* SMS spam */
        {"v1,v2,,,", "-", "-", "-", false},
        {"PhraseId,SentenceId,Phrase,Sentiment", "Phrase", "-", "Sentiment", true}, /* movie reviews */
        {"qid,question_text,target", "question_text", "-", "target", true},         /* Quora */
        {"id,qid1,qid2,question1,question2,is_duplicate", "question1", "question2", "is_duplicate", true},
        {"Id,ProductId,Score,Time,Summary,Text", "Text", "-", "Score", true}, /* fine foods */
        {"TITLE,BODY,TARGET", "TITLE", "BODY", "TARGET", true},
        {"question,answer,label", "question", "answer", "label", true},
        {"utterance,intent", "utterance", "-", "intent", true},
        {"sentence_A,sentence_B,relatedness_score", "sentence_A", "sentence_B", "relatedness_score", true}, /* SICK */
        {"reviewText,overall", "reviewText", "-", "-", true},
        {"Text,text,Label,label", "text", "-", "label", false},
        {"title,label", "title", "-", "label", true},
        {"body,title", "title", "body", "-", true},
        {"a,b", "-", "-", "-", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct columns c = header(cases[i].header);
        struct dataset_options o = {.path = "f.csv"};
        struct snug_err e;
        assert_int_equal(columns_find(&c, &o, true, &e), 0);
        const char *label = c.n_labels ? c.names[c.labels[0]] : "-";
        if (strcmp(name_of(&c, c.text), cases[i].text) || strcmp(name_of(&c, c.pair), cases[i].pair) ||
            strcmp(label, cases[i].label) || c.n_labels > 1 || (c.text_guessed || c.label_guessed) != cases[i].guessed)
            fail_msg("%s: text %s, pair %s, label %s%s", cases[i].header, name_of(&c, c.text), name_of(&c, c.pair),
                     label, c.text_guessed || c.label_guessed ? ", guessed" : "");
        columns_free(&c);
        c = header(cases[i].header);
        assert_int_equal(columns_find(&c, &o, false, &e), 0);
        assert_int_equal(c.n_labels, 0);
        columns_free(&c);
    }
}

/* What an option names is not looked for elsewhere, and nothing else is taken twice. */
static void options_name_columns(void **state)
{
    (void)state;
    struct snug_err e;
    struct columns c = header("Text,Review,Label,label_2,a,b");
    struct dataset_options o = {.path = "f.csv", .text_column = "review", .label_column = "LABEL"};
    assert_int_equal(columns_find(&c, &o, true, &e), 0);
    assert_string_equal(name_of(&c, c.text), "Review");
    assert_int_equal(c.pair, -1);
    assert_string_equal(c.names[c.labels[0]], "Label");
    columns_free(&c);

    c = header("text,review,label");
    o = (struct dataset_options){.path = "f.csv", .label_column = "text"};
    assert_int_equal(columns_find(&c, &o, true, &e), 0);
    assert_string_equal(name_of(&c, c.text), "review");
    columns_free(&c);

    c = header("text,title,label");
    o = (struct dataset_options){.path = "f.csv", .text_pair_column = "title"};
    assert_int_equal(columns_find(&c, &o, true, &e), 0);
    assert_string_equal(name_of(&c, c.text), "text");
    assert_string_equal(name_of(&c, c.pair), "title");
    columns_free(&c);

    c = header("Text,TEXT,label");
    o = (struct dataset_options){.path = "f.csv", .text_column = "text"}; /* which? */
    assert_int_equal(columns_find(&c, &o, true, &e), SNUG_ERR_INPUT);
    assert_string_equal(e.text, "f.csv: no column 'text'; there are: Text, TEXT, label");
    columns_free(&c);
}

static void a_column_for_each_label(void **state)
{
    (void)state;
    struct snug_err e;
    struct columns c = header("id,comment_text,toxic,insult,threat");
    struct dataset_options o = {.path = "f.csv", .label_column = "threat, Toxic,insult"};
    assert_int_equal(columns_find(&c, &o, true, &e), 0);
    assert_int_equal(c.n_labels, 3);
    assert_int_equal(c.labels[0], 4);
    assert_int_equal(c.labels[1], 2);
    assert_int_equal(c.labels[2], 3);
    assert_false(c.label_guessed);
    columns_free(&c);
    static const struct {
        const char *names, *message;
        int code;
    } wrong[] = {{"toxic,rude", "f.csv: no column 'rude'; there are: id, ", SNUG_ERR_INPUT},
                 {"toxic,", "f.csv: no column ''; there are: ", SNUG_ERR_INPUT},
                 {"toxic,insult,toxic", "--label-column: 'toxic' is there twice", SNUG_ERR_USAGE},
                 {"toxic,insult,threat,id,comment_text,toxic", "--label-column: 'toxic' is there", SNUG_ERR_USAGE}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        c = header("id,comment_text,toxic,insult,threat");
        o.label_column = wrong[i].names;
        assert_int_equal(columns_find(&c, &o, true, &e), wrong[i].code);
        if (strncmp(e.text, wrong[i].message, strlen(wrong[i].message)) != 0)
            fail_msg("%s: %s", wrong[i].names, e.text);
        columns_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_names_are_found),
        cmocka_unit_test(options_name_columns),
        cmocka_unit_test(a_column_for_each_label),
    };
    return cmocka_run_group_tests_name("columns", tests, NULL, NULL);
}
